import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import {
  createRemoteSettler,
  type RemoteSettlerOptions,
} from '../../../../adapters/chains/facilitator/settler.ts'
import type { Settler } from '../../../../core/ports/chains/settler.ts'
import type { Egress, EgressRequest } from '../../../../core/ports/egress.ts'
import { network, usdc } from '../evm/settler.ts'

/** The egress without its address policy; failures carry the codes of the port. */
export const egress = {
  async request({ url, method, headers, body, timeoutMs }: EgressRequest) {
    const init = {
      method,
      headers: { ...headers },
      signal: AbortSignal.timeout(timeoutMs),
      ...(body !== undefined && { body: String(body) }),
    }
    const response = await fetch(url, init).catch((error: Error & { cause?: { code?: string } }) => {
      const code = error.cause?.code === 'ECONNREFUSED' ? 'EGRESS_UNREACHABLE' : 'EGRESS_BROKEN'
      throw Object.assign(new Error(code), { code })
    })
    return { status: response.status, headers: {}, body: new Uint8Array(await response.arrayBuffer()) }
  },
} as unknown as Egress

export type Asked = { paymentPayload: never; paymentRequirements: never }
export type Routes = Record<string, (body: Asked, response: ServerResponse) => unknown>

const supported = { kinds: [{ x402Version: 2, scheme: 'exact', network }], extensions: [], signers: {} }

/** A facilitator whose answers are the test's: an object is sent as JSON, `undefined` is the route's own business. */
export async function startFacilitator(t: Test, routes: Routes) {
  const requests: { route: string; body: unknown; authorization: string | undefined }[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const route = request.url!.split('/').at(-1)!
    const body = text === '' ? {} : JSON.parse(text)
    requests.push({ route, body, authorization: request.headers.authorization })
    const answer = await (routes[route] ?? (() => supported))(body, response)
    if (answer !== undefined) response.end(JSON.stringify(answer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  t.teardown(close)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x402/`, requests, close }
}

/** A settler that speaks to it, with waits short enough for tests. */
export async function start(
  t: Test,
  url: string,
  changes: Partial<RemoteSettlerOptions> = {},
): Promise<Settler> {
  const options = {
    url,
    network,
    assets: [usdc],
    egress,
    pollMs: 40,
    proofTimeoutMs: 2_000,
    ...changes,
  } as const
  const settler = await createRemoteSettler(options)
  t.teardown(() => settler.close())
  return settler
}
