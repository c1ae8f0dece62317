import { once } from 'node:events'
import { createServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { startNameServer } from '../../test/helpers/servers/nameServer.ts'
import { selfSignedCertificate } from '../../test/helpers/servers/selfSignedCertificate.ts'
import { createEgress, type EgressOptions } from './egress.ts'

async function start(t: Test, names: string, trust: 'trusted' | 'unknown') {
  const certificate = selfSignedCertificate(t, names)
  if (certificate === undefined) return undefined
  const seen: { servername: string | false | undefined; host: string | undefined; isResumed: boolean }[] = []
  const server = createServer({ key: certificate.key, cert: certificate.cert }, (request, response) => {
    const socket = request.socket as TLSSocket
    const { servername } = socket as TLSSocket & { servername?: string | false }
    seen.push({ servername, host: request.headers.host, isResumed: socket.isSessionReused() })
    response.end('secure')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const dns = await startNameServer(t, () => ['127.0.0.1'])
  const options: EgressOptions = { allowPrivateCidrs: ['127.0.0.1/32'], dnsServers: [dns.address] }
  const egress = createEgress(
    trust === 'trusted' ? { ...options, extraCaFile: certificate.certFile } : options,
  )
  t.teardown(() => egress.close())
  const { port } = server.address() as AddressInfo
  const get = (host: string) =>
    egress.request({ url: `https://${host}:${port}/`, method: 'GET', timeoutMs: 10_000, maxBytes: 1_000 })
  return { egress, server, port, seen, get }
}

t.test('a certificate that nobody vouches for is refused, for requests, pools and upgrades', async (t) => {
  const started = await start(t, 'DNS:seller.test,IP:127.0.0.1', 'unknown')
  if (started === undefined) return
  const { egress, port, seen, get } = started
  await t.rejects(get('seller.test'), { code: 'EGRESS_UNTRUSTED' })
  await t.rejects(get('127.0.0.1'), { code: 'EGRESS_UNTRUSTED' })
  for (const scheme of ['https', 'wss']) {
    await t.rejects(egress.connect(new URL(`${scheme}://seller.test:${port}`)), { code: 'EGRESS_UNTRUSTED' })
  }
  t.equal(seen.length, 0)
})

t.test('with the operator’s authority the name is asked for, checked and kept as Host', async (t) => {
  const started = await start(t, 'DNS:seller.test,IP:127.0.0.1', 'trusted')
  if (started === undefined) return
  const { egress, port, seen, get } = started
  t.equal((await get('seller.test')).status, 200)
  t.equal((await get('127.0.0.1')).status, 200, 'an address is checked against the certificate’s addresses')
  t.match(seen, [
    { servername: 'seller.test', host: `seller.test:${port}` },
    { servername: false, host: `127.0.0.1:${port}` },
  ])
  t.equal((await get('seller.test.')).status, 200, 'a trailing dot is no part of the certificate’s name')
  const socket = await egress.connect(new URL(`wss://seller.test:${port}`))
  t.equal((socket as TLSSocket).authorized, true)
  socket.destroy()
})

t.test('a certificate for another name is refused', async (t) => {
  const started = await start(t, 'DNS:other.test', 'trusted')
  if (started === undefined) return
  await t.rejects(started.get('seller.test'), { code: 'EGRESS_UNTRUSTED' })
  await t.rejects(started.get('127.0.0.1'), { code: 'EGRESS_UNTRUSTED' })
  t.equal((await started.get('other.test')).status, 200)
})

t.test('plain HTTP on a TLS port, and TLS on a plain one, end cleanly', async (t) => {
  const started = await start(t, 'DNS:seller.test', 'trusted')
  if (started === undefined) return
  const { egress, port } = started
  const asking = egress.request({
    url: `http://seller.test:${port}/`,
    method: 'GET',
    timeoutMs: 10_000,
    maxBytes: 1_000,
  })
  await t.rejects(asking, { code: /^EGRESS_(BROKEN|BAD_ANSWER)$/ })

  const plain = createTcpServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  plain.listen(0, '127.0.0.1')
  await once(plain, 'listening')
  t.teardown(() => plain.close())
  const { port: plainPort } = plain.address() as AddressInfo
  await t.rejects(egress.connect(new URL(`https://seller.test:${plainPort}`)), { code: 'EGRESS_UNREACHABLE' })
})

t.test('later connections of a pool resume the first one’s session', async (t) => {
  const started = await start(t, 'DNS:seller.test', 'trusted')
  if (started === undefined) return
  const { server, seen, get } = started
  t.equal((await get('seller.test')).status, 200)
  server.closeAllConnections()
  await get('seller.test').catch(() => get('seller.test'))
  t.equal(seen.at(-1)!.isResumed, true)
})

t.test('an authority file that is not there or holds no certificate stops the start', async (t) => {
  const folder = t.testdir({ 'empty.pem': 'not a certificate' })
  t.throws(() => createEgress({ extraCaFile: `${folder}/missing.pem` }), { code: 'ENOENT' })
  t.throws(() => createEgress({ extraCaFile: `${folder}/empty.pem` }), { message: /extraCaFile/ })
})
