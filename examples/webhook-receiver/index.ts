/**
 * Hears of a link's sales. It says where it listens, and then every sale once, as a line of JSON.
 *
 *   WEBHOOK_SECRET=whsec_… PORT=9000 node examples/webhook-receiver/index.ts
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
/** In a database, in the transaction that does the work: an event may come more than once, always under the same id. */
const seen = new Set<string>()

/** A payment that came too late is told as well: then the status is `refund_due`, and nothing is to be delivered for it. */
const isSale = ({ event, data }: Event) =>
  event === 'purchase.confirmed' && (data.status === 'settled' || data.status === 'delivered')

async function receive(request: IncomingMessage): Promise<number> {
  // The bytes as they came: JSON that was parsed and written again has another signature.
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
  // Anything from 200 to 299 ends it. Work that takes longer than 15 seconds belongs behind the answer.
  return 200
}

const server = createServer(async (request, response) => {
  response.writeHead(await receive(request).catch(() => 500)).end()
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
})
