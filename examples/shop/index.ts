/**
 * A shop that sells one thing. Its page opens the checkout in a popup. An order counts as paid when the
 * signed webhook says so, regardless of what the page received.
 *
 * TOLLGATE_URL=http://127.0.0.1:8402 API_KEY=tg_live_… WEBHOOK_SECRET=whsec_… PORT=9000 node
 * examples/shop/index.ts
 */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

const { TOLLGATE_URL, API_KEY, WEBHOOK_SECRET, PORT = '0' } = process.env
if (!TOLLGATE_URL || !API_KEY || !WEBHOOK_SECRET)
  throw new Error('Expected TOLLGATE_URL, API_KEY and WEBHOOK_SECRET in the environment.')

const webhook = new Webhook(WEBHOOK_SECRET)
/** Orders and the purchases that paid them. A real shop stores them in its database. */
const orders = new Map<string, { paidBy: string | null }>()

const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tea</title>
<h1>Green tea, 100 g</h1>
<button id="buy">Buy for 4.20 USDC</button>
<p id="says" role="status"></p>
<script src="${TOLLGATE_URL}/widget.js"></script>
<script>
  const says = document.getElementById('says')
  document.getElementById('buy').onclick = () => {
    // Inside the click, or the browser blocks the popup: the address may come later.
    const checkoutUrl = fetch('/orders', { method: 'POST' }).then((answer) => answer.json()).then((order) => order.checkoutUrl)
    Tollgate.open({
      checkoutUrl,
      onComplete: (done) => { says.textContent = 'Thank you! Order ' + done.clientReferenceId + ' is paid.' },
      onCancel: () => { says.textContent = 'Another time, then.' },
      onClose: () => { says.dataset.closed = 'true' },
    })
  }
</script>
</html>`

/** The server sets the price and the order number: a browser could send anything. */
async function order(response: ServerResponse, shopUrl: string): Promise<void> {
  const id = randomUUID()
  orders.set(id, { paidBy: null })
  const answer = await fetch(`${TOLLGATE_URL}/api/v1/payments`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${API_KEY}`,
      'content-type': 'application/json',
      'idempotency-key': id,
    },
    body: JSON.stringify({
      amount: '4.20',
      title: 'Green tea, 100 g',
      clientReferenceId: id,
      allowedOrigin: shopUrl,
      successUrl: `${shopUrl}/orders/${id}`,
      cancelUrl: `${shopUrl}/`,
    }),
  })
  const { data, error } = (await answer.json()) as { data?: { checkoutUrl: string }; error?: unknown }
  if (data === undefined) throw new Error(`No session: ${JSON.stringify(error)}`)
  send(response, 201, 'application/json', JSON.stringify({ id, checkoutUrl: data.checkoutUrl }))
}

async function hear(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await text(request)
  let event: { type: string; purchaseId: string; data: { session?: { clientReferenceId: string | null } } }
  try {
    event = webhook.verify(body, request.headers as Record<string, string>) as typeof event
  } catch {
    return send(response, 401, 'text/plain', 'not signed by the gateway')
  }
  const known = orders.get(event.data.session?.clientReferenceId ?? '')
  // An event may arrive twice. The second one changes nothing.
  if (event.type === 'payment.confirmed' && known !== undefined) known.paidBy = event.purchaseId
  send(response, 200, 'text/plain', 'heard')
}

const send = (response: ServerResponse, status: number, type: string, body: string): void => {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8` }).end(body)
}

const server = createServer(async (request, response) => {
  const shopUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { method, url = '/' } = request
  try {
    if (method === 'POST' && url === '/orders') return await order(response, shopUrl)
    if (method === 'POST' && url === '/paid') return await hear(request, response)
    const known = orders.get(url.replace('/orders/', ''))
    if (known !== undefined) return send(response, 200, 'application/json', JSON.stringify(known))
    if (url === '/') return send(response, 200, 'text/html', page)
    send(response, 404, 'text/plain', 'not here')
  } catch (error) {
    console.error(error)
    send(response, 502, 'text/plain', 'the checkout could not be opened')
  }
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
