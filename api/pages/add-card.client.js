// The script of the page that adds a card. Runs in a browser, after the payment processor's script.
const form = document.querySelector('form');
const button = form.querySelector('button');
const state = document.querySelector('#state');

const token = location.hash.slice(1);
// Removes the token from the address bar and the history.
history.replaceState(null, '', location.pathname);
// When another link is opened in the same tab, only the part after the `#` changes, so the page must be reloaded.
addEventListener('hashchange', () => location.reload());

function show(text, isProblem = false) {
  state.textContent = text;
  state.className = isProblem ? 'problem' : '';
}

/** The platform refused, or is unreachable. `isFinal`: a retry cannot succeed. */
class Failure extends Error {
  constructor(message, isFinal) {
    super(message);
    this.isFinal = isFinal;
  }
}

/** @throws {Failure} */
async function ask(what) {
  let reply;
  let body;
  try {
    reply = await fetch(`/account/add-card/${what}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      credentials: 'omit',
      body: JSON.stringify({ token }),
    });
    body = await reply.json();
  } catch {
    throw new Failure('The platform does not answer. Open the link again.', false);
  }
  if (!reply.ok) throw new Failure(body.error, reply.status < 500 && reply.status !== 429);
  return body.data;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The card, once the payment processor has verified it. Null: it was not verified within two minutes. */
async function verified() {
  const end = Date.now() + 120_000;
  for (let waitMs = 500; Date.now() < end; waitMs = Math.min(waitMs * 1.5, 4000)) {
    try {
      const { method } = await ask('check');
      if (method) return method;
    } catch (failure) {
      if (failure.isFinal) throw failure;
    }
    await pause(waitMs);
  }
  return null;
}

function showAdded({ brand, last4 }) {
  form.hidden = true;
  show(`The card is added: ${brand ?? 'card'} •••• ${last4 ?? ''}. You can close this page.`);
}

async function add(stripe, clientSecret, card) {
  button.disabled = true;
  show('One moment …');
  const { error } = await stripe.confirmCardSetup(clientSecret, { payment_method: { card } });
  // The setup may already be confirmed, in another tab. Then `verified` finds its card too.
  if (error && error.code !== 'setup_intent_unexpected_state') {
    show(error.message ?? 'The payment processor does not answer. Try again.', true);
    button.disabled = false;
    return;
  }
  show('The card is being verified …');
  const method = await verified();
  if (method) return showAdded(method);
  form.hidden = true;
  show('The card is not verified yet. Open the link again later to see whether it is.');
}

async function main() {
  if (token === '')
    throw new Failure('This page needs the link that the API makes: POST /v1/payment/methods/link.', true);
  const { method, publishable_key: key, client_secret: clientSecret } = await ask('begin');
  if (method) return showAdded(method);
  if (typeof window.Stripe !== 'function') {
    throw new Failure('The script of the payment processor did not load. Open the link again.', false);
  }
  const stripe = window.Stripe(key);
  const card = stripe.elements().create('card');
  card.mount('#card');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    add(stripe, clientSecret, card).catch((failure) => show(failure.message, true));
  });
  form.hidden = false;
  show('');
}

main().catch((failure) => show(failure.message, true));
