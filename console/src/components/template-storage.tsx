import { useRead } from '../api/queries.ts';
import { formatBytes } from '../format/numbers.ts';
import { Loaded } from './loaded.tsx';
import { Meter } from './meter.tsx';

const formatGigabytes = (gigabytes: number) => formatBytes(gigabytes * 1024 ** 3);

/** How much of their limits the images of templates use. */
export function TemplateStorage() {
  const read = useRead('getTemplateStorageUsage');
  return (
    <Loaded read={read}>
      {(usage) => (
        <div className="columns">
          <Meter
            label="Images of the account's templates"
            used={usage.used_gb}
            limit={usage.limit_gb}
            format={formatGigabytes}
          />
          <Meter
            label="Images of your templates"
            used={usage.user_used_gb}
            limit={usage.user_limit_gb}
            format={formatGigabytes}
          />
        </div>
      )}
    </Loaded>
  );
}
