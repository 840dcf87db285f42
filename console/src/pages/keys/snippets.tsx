import { useQuery } from '@tanstack/react-query';
import { apiUrl } from '../../api/client.ts';
import { useNotice } from '../../components/notices.tsx';
import { clientGuides } from './client-guides.ts';
import './snippets.css';

/** How each client is installed and used with a key. The key itself is only in what is copied. */
export function Snippets(props: { apiKey: string; e2bKey: string }) {
  const wheel = useWheel();
  const url = apiUrl('').replace(/\/$/, '');
  const hide = (code: string) => code.replaceAll(props.apiKey, 'spk_…').replaceAll(props.e2bKey, 'e2b_…');
  return (
    <div>
      {clientGuides({ ...props, url, wheel }).map(({ client, steps }) => (
        <details key={client} name="client">
          <summary>{client}</summary>
          {steps.map(({ about, code }) => (
            <Snippet key={about} client={client} about={about} code={code} shown={hide(code)} />
          ))}
        </details>
      ))}
    </div>
  );
}

function Snippet(props: { client: string; about: string; code: string; shown: string }) {
  const notify = useNotice();
  const copy = async () => {
    await navigator.clipboard.writeText(props.code);
    notify('Copied');
  };
  return (
    <figure className="snippet">
      <figcaption>
        {props.about}
        <button type="button" className="quiet" aria-label={`Copy for ${props.client}: ${props.about}`} onClick={copy}>
          Copy
        </button>
      </figcaption>
      <pre>{props.shown}</pre>
    </figure>
  );
}

/** The file of the Python client, whose name has its version, from the platform's own list of packages. */
function useWheel(): string {
  const read = useQuery({
    queryKey: ['client packages'],
    queryFn: async ({ signal }) => {
      const list = await (await fetch(apiUrl('/clients'), { signal })).text();
      return /sandbox_platform_client-[\w.]+-py3-none-any\.whl/.exec(list)?.[0] ?? null;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  return read.data ?? 'sandbox_platform_client-<version>-py3-none-any.whl';
}
