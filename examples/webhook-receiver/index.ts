/**
 * Receives a link's sales. Prints where it listens, and then every sale once, as a JSON line.
 *
 * WEBHOOK_SECRET=whsec_… PORT=9000 node examples/webhook-receiver/index.ts
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

interface Event {
  readonly event: string
  readonly purchaseId: string
  readonly amount: string
  readonly data: { readonly status?: string }
}

const { WEBHOOK_SECRET, PORT = '0' } = process.env
if (!WEBHOOK_SECRET) throw new Error('Expected WEBHOOK_SECRET in the environment: the link shows it once.')

const webhook = new Webhook(WEBHOOK_SECRET)
/**
 * In production use a database, in the transaction that does the work: an event may arrive more than once,
 * always with the same id.
 */
const seen = new Set<string>()

/** A payment that arrived too late is reported too, with status `refund_due`. Deliver nothing for it. */
const isSale = ({ event, data }: Event) =>
  event === 'purchase.confirmed' && (data.status === 'settled' || data.status === 'delivered')

async function receive(request: IncomingMessage): Promise<number> {
  // The bytes as received: JSON that was parsed and serialized again has a different signature.
  const body = await text(request)
  const headers = request.headers as Record<string, string>
  let event: Event
  try {
    event = webhook.verify(body, headers) as Event
  } catch {
    return 401
  }
  const id = headers['webhook-id']!
  if (isSale(event) && !seen.has(id)) {
    seen.add(id)
    console.log(JSON.stringify({ purchaseId: event.purchaseId, amount: event.amount }))
  }
  // Any status from 200 to 299 confirms the event. Work that takes longer than 15 seconds belongs after the
  // response.
  return 200
}

const server = createServer(async (request, response) => {
  response.writeHead(await receive(request).catch(() => 500)).end()
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
})
