import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createEgress } from '../../../adapters/egress/egress.ts'
import { startVault } from './startVault.ts'

export const secret = 'ghp_S3cr3t/with+signs=and"quotes'

export const scope = 'credentials.api.github'

type Handler = (req: IncomingMessage, res: ServerResponse) => void

export async function start(t: Parameters<typeof startVault>[0], handler: Handler, settings: object = {}) {
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    handler(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ways: ReturnType<typeof createEgress>[] = []
  t.teardown(() => Promise.all(ways.map((way) => way.close())))
  const vault = await startVault(t, {
    egress: (ranges) => {
      const way = createEgress({ allowPrivateCidrs: ranges })
      ways.push(way)
      return way
    },
  })
  const agent = await vault.agent('caller', [scope])
  await vault.asOwner('POST', '/v1/vault/write', {
    scope,
    value: secret,
    settings: {
      rules: [{ origin, methods: ['GET', 'POST'], paths: ['/v1/items', '/v1/items/*', '/open/**'] }],
      allow_private: ['127.0.0.1/32'],
      ...settings,
    },
  })
  const call = (path: string, more: object = {}) =>
    agent.call('POST', '/v1/vault/call', {
      scope,
      method: 'GET',
      url: `${origin}${path}`,
      agent_name: 'x',
      ...more,
    })
  return { vault, agent, call, origin, seen }
}

export const echo: Handler = (req, res) => {
  const token = String(req.headers.authorization).replace('Bearer ', '')
  const base64 = Buffer.from(token).toString('base64')
  res.setHeader('x-request-id', token.replaceAll(/[^ -~]/g, ''))
  res.end(
    JSON.stringify({
      token,
      base64,
      url: Buffer.from(token).toString('base64url'),
      inside: Buffer.from(`user:${token}:x`).toString('base64'),
      escaped: encodeURIComponent(token),
      hex: Buffer.from(token).toString('hex'),
    }),
  )
}
