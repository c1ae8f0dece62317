import { once } from 'node:events'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer } from 'node:tls'
import t from 'tap'
import { createEgress } from '../adapters/egress/egress.ts'
import { startGateway } from './helpers/gateway.ts'
import { selfSignedCertificate } from './helpers/servers/selfSignedCertificate.ts'

/** More than the system takes from a writer whose reader stands still. */
const BYTES = 16_000_000

t.test('small records that come while the buyer stands still are waited for once', async (t) => {
  const certificate = selfSignedCertificate(t, 'IP:127.0.0.1')
  if (certificate === undefined) return
  const { key, cert, certFile } = certificate
  const server = createServer({ key, cert }, (socket) => {
    socket.on('error', () => {})
    // As servers do that want the first bytes to be there early: a read of the gateway's has dozens of records.
    socket.setMaxSendFragment(512)
    socket.once('data', () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${BYTES}\r\n\r\n`)
      socket.write(Buffer.alloc(BYTES, 'x'))
    })
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'], extraCaFile: certFile })
  t.teardown(() => egress.close())
  const gateway = await startGateway(t, {
    adapt: (ports) => ({ ...ports, egress }),
    plugins: [{ use: 'upstream' }],
  })
  const { port } = server.address() as AddressInfo
  const link = await gateway.addLink({ slug: 'tls', url: `https://127.0.0.1:${port}`, responseMode: 'raw' })
  const warnings: string[] = []
  const warned = ({ message }: Error) => void warnings.push(message)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))

  let bytes = 0
  await new Promise<void>((resolve, reject) => {
    get(link.url, { agent: false }, async (response) => {
      await sleep(1_000)
      for await (const piece of response) {
        bytes += piece.length
        await sleep(1)
      }
      resolve()
    }).on('error', reject)
  })
  t.equal(bytes, BYTES)
  t.same(warnings, [])
})
