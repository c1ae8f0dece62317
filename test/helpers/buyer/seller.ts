import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeHeader, encodeHeader } from '../../../core/x402/header.ts'

/** What came to a seller, in order. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** Decoded PAYMENT-SIGNATURE; null when the call came without one. */
  readonly payment: Record<string, unknown> | null
}

export interface Seller {
  readonly origin: string
  /** The paid address. */
  readonly url: string
  readonly received: Received[]
  /** Calls that carried a payment. */
  paid(): Received[]
  close(): Promise<void>
}

export type Answer = (request: Received, response: ServerResponse, seller: Seller) => unknown

/** An HTTP server that answers as told; `answer` may be as dishonest as it likes. */
export async function startSeller(respond: Answer): Promise<Seller> {
  const received: Received[] = []
  const server = createServer({ keepAlive: false }, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const header = request.headers['payment-signature']
    const decoded = typeof header === 'string' ? decodeHeader(header, 100_000) : undefined
    const entry: Received = {
      method: request.method!,
      path: request.url!,
      headers: request.headers,
      body: Buffer.concat(chunks).toString('utf8'),
      payment: decoded?.ok ? { ...decoded.value } : null,
    }
    received.push(entry)
    await respond(entry, response, seller)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const seller: Seller = {
    origin,
    url: `${origin}/api/link/demo/hello`,
    received,
    paid: () => received.filter((entry) => entry.payment !== null),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return seller
}

/** Answers 402 with an offer in header and body. */
export function offer(
  response: ServerResponse,
  paymentRequired: unknown,
  body: unknown = paymentRequired,
): void {
  response.writeHead(402, {
    'content-type': 'application/json',
    'payment-required': encodeHeader(paymentRequired),
  })
  response.end(JSON.stringify(body))
}

/** Answers 200 with a receipt and `{data, _svc}`. */
export function deliver(
  response: ServerResponse,
  receipt: unknown,
  body = '{"data":{"hello":"world"}}',
): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    ...(receipt !== undefined && { 'payment-response': encodeHeader(receipt) }),
  })
  response.end(body)
}
