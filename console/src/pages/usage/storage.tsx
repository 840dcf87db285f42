import { Link } from '@tanstack/react-router';
import { Section } from '../../components/page.tsx';
import { TemplateStorage } from '../../components/template-storage.tsx';

/** The room that images of templates take. */
export function Storage() {
  return (
    <Section title="Images of templates" actions={<Link to="/templates">Templates</Link>}>
      <TemplateStorage />
      <p className="soft">
        Here, layers that images share count once. For the cost, each image counts with its full size, for as long as it
        is kept:{' '}
        <Link to="." search={{ part: 'events', usage_type: 'template_storage_gb_seconds' }}>
          its events
        </Link>
        . To make room, delete templates that nobody needs.
      </p>
    </Section>
  );
}
