// The haproxy.cfg of examples/config in a real HAProxy, in front of two gateways that are restarted one after the other.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from './helpers/freePort.ts'
import { plainGateways } from './helpers/plainGateway.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { selfSignedCertificate } from './helpers/servers/selfSignedCertificate.ts'
import { hasProxy, startProxy } from './helpers/startProxy.ts'

const shipped = readFileSync(resolve(import.meta.dirname, '../examples/config/haproxy.cfg'), 'utf8')

/** HAProxy with the shipped file as it is, but for addresses, the certificate, and a socket that says how its servers are. */
async function startHaproxy(t: Test, ports: readonly [number, number]) {
  const certificate = selfSignedCertificate(t, 'DNS:pay.example.com')
  if (certificate === undefined) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-haproxy-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  const socket = join(folder, 'socket')
  writeFileSync(join(folder, 'cert.pem'), certificate.cert + certificate.key)
  const own = shipped
    .replace('bind :443', `bind 127.0.0.1:${port}`)
    .replace('/etc/haproxy/pay.example.com.pem', join(folder, 'cert.pem'))
    .replace('10.0.0.11:8080', `127.0.0.1:${ports[0]}`)
    .replace('10.0.0.12:8080', `127.0.0.1:${ports[1]}`)
    .replace('global\n', `global\n  stats socket ${socket}\n`)
  writeFileSync(join(folder, 'haproxy.cfg'), own)
  await startProxy(t, 'haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')], port)

  /** `UP` or `DOWN`, as HAProxy sees the server. */
  async function stateOf(server: string): Promise<string> {
    const asked = connect({ path: socket })
    asked.end('show stat\n')
    let text = ''
    for await (const chunk of asked.setEncoding('utf8')) text += chunk
    const [names, ...rows] = text.trim().split('\n')
    const column = (name: string) => names!.replace('# ', '').split(',').indexOf(name)
    const row = rows.map((line) => line.split(',')).find((cells) => cells[column('svname')] === server)!
    return row[column('status')]!
  }
  const until = async (server: string, state: string) => {
    while (!(await stateOf(server)).startsWith(state)) await new Promise((done) => setTimeout(done, 20))
  }
  return { port, until }
}

/** Calls one after the other on a connection that is kept, until told to end. @returns what did not go well */
async function keepCalling(port: number, path: string, isOver: () => boolean) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
  const failures: string[] = []
  let calls = 0
  while (!isOver()) {
    calls++
    try {
      const sent = request({ host: '127.0.0.1', port, path, agent }).end()
      const [response] = await once(sent, 'response')
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      if (response.statusCode !== 200) failures.push(`call ${calls}: ${response.statusCode} ${text}`)
    } catch (error) {
      failures.push((error as Error).message)
    }
    await new Promise((done) => setTimeout(done, 5))
  }
  agent.destroy()
  return { calls, failures }
}

if (hasProxy(t, 'haproxy'))
  t.test('a restart of one gateway after the other loses no call', async (t) => {
    const { start, addLink, newPort } = await plainGateways(t, {
      // Longer than HAProxy ever needs: the test ends it once HAProxy has noticed.
      shutdownDelayMs: 600_000,
      trustedProxyCidrs: ['127.0.0.1/32'],
    })
    const ports = [await newPort(), await newPort()] as const
    const gateways = [await start(ports[0]), await start(ports[1])]
    const seller = await sellerOf(t, (_req, res) => void setTimeout(() => res.end('{}'), 20))
    const path = await addLink(gateways[0]!.url, { url: seller.url, slug: 'free' })
    const proxy = await startHaproxy(t, ports)
    if (proxy === undefined) return
    for (const name of ['one', 'two']) await proxy.until(name, 'UP')

    let isOver = false
    const callers = Array.from({ length: 6 }, () => keepCalling(proxy.port, path, () => isOver))
    for (const [i, name] of ['one', 'two'].entries()) {
      const { child } = gateways[i]!
      child.signal('SIGTERM')
      await proxy.until(name, 'DOWN')
      child.signal('SIGTERM')
      t.equal((await child.exited).code, 0)
      gateways[i] = await start(ports[i]!)
      await proxy.until(name, 'UP')
    }
    isOver = true
    for (const { calls, failures } of await Promise.all(callers)) {
      t.ok(calls > 20)
      t.strictSame(failures, [])
    }
  })

t.test(
  'the documented delay is longer than HAProxy needs to notice, and HAProxy waits longer than the gateway',
  (t) => {
    const [, inter, fall] = /check inter (\d+)s fall (\d+)/.exec(shipped)!
    const [, delayMs] = /shutdownDelayMs: (\d+)/.exec(shipped)!
    t.ok(Number(delayMs) > 1_000 * Number(inter) * (Number(fall) + 1))
    for (const name of ['client', 'server', 'tunnel']) {
      const [, seconds] = new RegExp(`timeout ${name} (\\d+)s`).exec(shipped)!
      t.ok(Number(seconds) > 300, name)
    }
    t.end()
  },
)
