import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import type { KeyBuyer } from '../../../buyer/buyer.ts'
import { familyOf } from '../../../core/domain/network.ts'
import { encodeHeader } from '../../../core/x402/header.ts'
import { chooseEntry } from '../../../core/x402/offerTerms.ts'

/** What came to `POST /v1/vault/sign-payment`. */
export interface Ordered {
  readonly headers: IncomingMessage['headers']
  readonly body: {
    readonly payment_required: { readonly resource: object; readonly accepts: readonly [object] }
    readonly max_amount: string
    readonly network: string
    readonly url: string
  }
  /**
   * A header signed with the vault's key for the entry that was ordered, with `change` in what is signed, and `parts` in
   * the header around it: what a cheat would give.
   */
  sign(change?: object, parts?: object): Promise<string>
}

export type OrderResponse = (ordered: Ordered, response: ServerResponse) => unknown

export interface FakeVault {
  readonly url: string
  readonly orders: readonly Ordered[]
  /** Paths of everything else that was asked. */
  readonly requests: readonly string[]
  /** Stops, and starts again at the same address. */
  stop(): Promise<void>
  start(): Promise<void>
}

export interface FakeVaultOptions {
  /** Creates the wallet again: one wallet signs once. */
  readonly wallet: () => KeyBuyer
  readonly chains: readonly string[]
  readonly order: OrderResponse
  /** Instead of the wallet's address. */
  readonly address?: (response: ServerResponse) => unknown
}

export const json = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** An error as a vault answers it. */
export const vaultError = (response: ServerResponse, status: number, code: string): void =>
  json(response, status, { error: { code, message: `${code}.`, action: 'Do something.', retryable: false } })

/** A server that speaks like a vault and need not be honest. */
export async function startFakeVault(t: Test, options: FakeVaultOptions): Promise<FakeVault> {
  const orders: Ordered[] = []
  const requests: string[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = request.url!
    if (path === '/v1/vault/sign-payment') {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8'))
      const ordered: Ordered = {
        headers: request.headers,
        body,
        sign: (change, parts) => sign(options.wallet(), body.payment_required, change, parts),
      }
      orders.push(ordered)
      return options.order(ordered, response)
    }
    requests.push(`${request.method} ${path}`)
    if (path === '/v1/capabilities') return json(response, 200, { chains: options.chains })
    if (path.startsWith('/address/')) {
      if (options.address !== undefined) return options.address(response)
      return json(response, 200, { address: options.wallet().address, chain: path.slice(9) })
    }
    json(response, 200, {})
  })
  let port = 0
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  const start = () => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await start()
  port = (server.address() as AddressInfo).port
  t.teardown(() => (server.listening ? stop() : undefined))
  return { url: `http://127.0.0.1:${port}`, orders, requests, stop, start }
}

async function sign(
  wallet: KeyBuyer,
  offer: Ordered['body']['payment_required'],
  change: object = {},
  parts: object = {},
): Promise<string> {
  const [entry] = offer.accepts
  const family = familyOf(String((entry as { network: unknown }).network))!
  const choice = chooseEntry([{ ...entry, ...change }], { [family]: wallet })
  if (!choice.ok) throw new Error(choice.message)
  const { payload } = await wallet.sign(choice.chosen.terms, AbortSignal.timeout(20_000))
  return encodeHeader({ x402Version: 2, payload, resource: offer.resource, accepted: entry, ...parts })
}
