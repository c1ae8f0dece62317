import { randomBytes, sign } from 'node:crypto'
import { once } from 'node:events'
import fc from 'fast-check'
import t from 'tap'
import { WebSocket } from 'ws'
import { until } from '../../test/helpers/rawHttp.ts'
import { selfSignedCertificate } from '../../test/helpers/servers/selfSignedCertificate.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { limited, proofOf, vaultAt, wire } from '../../test/helpers/vault/remote/wire.ts'
import {
  offerFor,
  proxyFor,
  proxyOptions,
  relayFor,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import { createKeyPair, privateKeyObject } from '../channel/suite.ts'
import { frame, frameTypes, MAX_FRAME_BYTES, relayPath, routeOf, uint32 } from './frames.ts'
import { startRelay } from './startRelay.ts'

t.test('frames go between an agent and the vault that proved the routing id, and nowhere else', async (t) => {
  const { url, stats } = await relayFor(t)
  const [keys, otherKeys] = [createKeyPair('Ed25519'), createKeyPair('Ed25519')]
  const agent = await wire(t, url)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.absent)
  const [vault, other] = [await vaultAt(t, url, keys), await vaultAt(t, url, otherKeys)]
  await agent.next(frameTypes.present)
  agent.send(frameTypes.payload, Buffer.from('question'))
  const pendingApproval = await vault.next(frameTypes.fromAgent)
  t.equal(pendingApproval.subarray(20).toString(), 'question')
  t.same(pendingApproval.subarray(4, 20), routeOf(keys.publicKey))

  other!.send(frameTypes.toAgent, pendingApproval.subarray(0, 4), Buffer.from('forged'))
  await other!.next(frameTypes.gone)
  vault.send(frameTypes.toAgent, pendingApproval.subarray(0, 4), Buffer.from('answer'))
  t.equal(
    (await agent.next(frameTypes.payload)).toString(),
    'answer',
    'the other vault’s frame did not arrive',
  )
  t.match(stats(), { connections: 3, routes: 2, agents: 1 })

  vault.socket.close()
  await agent.next(frameTypes.absent)
  agent.send(frameTypes.payload, Buffer.from('lost'))
  await agent.next(frameTypes.absent)
  t.equal(other!.frames.length, 0)
  agent.socket.close()
  await until(() => stats().agents === 0)
})

t.test('a routing id can not be taken without its key', async (t) => {
  const { url } = await relayFor(t)
  const [keys, thief] = [createKeyPair('Ed25519'), createKeyPair('Ed25519')]
  const vault = await vaultAt(t, url, keys)
  const stolenProof = proofOf(keys, vault.challenge)
  const evil = await wire(t, url)
  const proofs = {
    'the proof of another connection': [keys.publicKey, stolenProof],
    'another key’s signature': [keys.publicKey, proofOf(thief, evil.challenge)],
    noise: [keys.publicKey, randomBytes(64)],
    'a key that is no key': [Buffer.alloc(32, 0xff), randomBytes(64)],
    'a signature of the bare challenge': [
      keys.publicKey,
      sign(null, evil.challenge, privateKeyObject('Ed25519', keys)),
    ],
  } as const
  for (const [what, [publicKey, proof]] of Object.entries(proofs)) {
    evil.send(frameTypes.register, publicKey!, proof!)
    t.same(await evil.next(frameTypes.refused), routeOf(publicKey!), what)
  }
  evil.send(frameTypes.unregister, routeOf(keys.publicKey))
  evil.send(frameTypes.register, thief.publicKey, proofOf(thief, evil.challenge))
  t.same(await evil.next(frameTypes.registered), routeOf(thief.publicKey), 'an id of its own it may have')
  const agent = await wire(t, url)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.present)
  agent.send(frameTypes.payload, Buffer.from('for the vault'))
  await vault.next(frameTypes.fromAgent)
  t.notOk(evil.frames.some((one) => one[0] === frameTypes.fromAgent))
})

t.test('the newest connection that proves an id has it; the older one is told', async (t) => {
  const { url } = await relayFor(t)
  const keys = createKeyPair('Ed25519')
  const old = await vaultAt(t, url, keys)
  const fresh = await vaultAt(t, url, keys)
  t.same(await old.next(frameTypes.replaced), routeOf(keys.publicKey))
  old.socket.close()
  await old.closed
  const agent = await wire(t, url)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.present)
  fresh.send(frameTypes.unregister, routeOf(keys.publicKey))
  await agent.next(frameTypes.absent)
})

t.test('when the newest is gone, the one before it that is still there has it again', async (t) => {
  const { url } = await relayFor(t)
  const keys = createKeyPair('Ed25519')
  const route = routeOf(keys.publicKey)
  const first = await vaultAt(t, url, keys)
  const second = await vaultAt(t, url, keys)
  const third = await vaultAt(t, url, keys)
  const agent = await wire(t, url)
  agent.send(frameTypes.attach, route)
  await agent.next(frameTypes.present)
  second.socket.close()
  await second.closed
  third.socket.close()
  t.same(await first.next(frameTypes.registered), route)
  await agent.next(frameTypes.present)
  agent.send(frameTypes.payload, Buffer.from('x'))
  await first.next(frameTypes.fromAgent)
  first.socket.close()
  await agent.next(frameTypes.absent)
})

t.test('whatever is no frame ends the connection, never the relay', async (t) => {
  const { url } = await limited(t, { connectsPerMinutePerIp: 10_000 })
  const keys = createKeyPair('Ed25519')
  await vaultAt(t, url, keys)
  const bad: Record<string, Buffer | string> = {
    text: 'hello',
    nothing: Buffer.alloc(0),
    'an unknown type': Buffer.of(0x7f, 1, 2, 3),
    'a relay’s own type': frame(frameTypes.challenge, randomBytes(32)),
    'a payload of nobody': frame(frameTypes.payload, randomBytes(10)),
    'an answer of nobody': frame(frameTypes.toAgent, uint32(1), randomBytes(10)),
    'a short answer': frame(frameTypes.toAgent, Buffer.of(1)),
    'a short registration': frame(frameTypes.register, randomBytes(95)),
    'a short route': frame(frameTypes.attach, randomBytes(15)),
  }
  for (const [what, bytes] of Object.entries(bad)) {
    const one = await wire(t, url)
    one.socket.send(bytes)
    t.equal(await one.closed, 4000, what)
  }
  const large = await wire(t, url)
  large.socket.send(Buffer.alloc(MAX_FRAME_BYTES + 1, frameTypes.payload))
  t.equal(await large.closed, 1009, 'a frame above 512 KiB')
  const twice = await wire(t, url)
  twice.send(frameTypes.attach, randomBytes(16))
  twice.send(frameTypes.attach, randomBytes(16))
  t.equal(await twice.closed, 4000, 'a second attachment')
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 120 }), { maxLength: 6 }), async (noise) => {
      const one = await wire(t, url)
      for (const bytes of noise) one.socket.send(bytes)
      one.socket.close()
      return (await one.closed) > 0
    }),
    { numRuns: 30 },
  )
  await vaultAt(t, url, keys)
})

t.test('only programs, at one address, are let in', async (t) => {
  const { url } = await relayFor(t)
  const refused = async (path: string, headers: Record<string, string>) => {
    const socket = new WebSocket(url + path, { headers })
    const [, response] = await once(socket, 'unexpected-response')
    response.resume()
    socket.on('error', () => {})
    socket.terminate()
    return response.statusCode
  }
  t.equal(await refused(relayPath, { origin: 'https://evil.example' }), 403)
  t.equal(await refused(`${relayPath}?x`, {}), 404)
  t.equal(await refused('/', {}), 404)
  const base = url.replace('ws:', 'http:')
  t.equal((await call(base, '/healthz')).text, 'ok\n')
  t.equal((await call(base, relayPath)).status, 404)
})

t.test('behind a proxy the address is the one that the proxy saw', async (t) => {
  const { url } = await relayFor(t, { trustProxy: true, limits: { maxConnectionsPerIp: 1 } })
  const open = async (forwarded: string) => {
    const socket = new WebSocket(url + relayPath, { headers: { 'x-forwarded-for': forwarded } })
    t.teardown(() => socket.terminate())
    socket.on('error', () => {})
    return Promise.race([
      new Promise((resolve) => socket.on('message', () => resolve('welcome'))),
      new Promise((resolve) => socket.on('close', () => resolve('refused'))),
    ])
  }
  t.equal(await open('9.9.9.9, 1.1.1.1'), 'welcome')
  t.equal(await open('9.9.9.9, 2.2.2.2'), 'welcome')
  t.equal(await open('8.8.8.8, 1.1.1.1'), 'refused')
})

t.test('over wss, end to end', async (t) => {
  const certificate = selfSignedCertificate(t, 'IP:127.0.0.1,DNS:localhost')
  if (certificate === undefined) return
  const { cert, key } = certificate
  const relay = await relayFor(t, { tls: { cert, key } })
  t.match(relay.url, /^wss:/)
  const vault = await vaultFor(t, relay, { ca: cert })
  const offer = await offerFor(vault)
  const options = proxyOptions(t, vault, relay, offer)
  const proxy = await proxyFor(t, { ...options, ca: cert })
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  const distrusting = await proxyFor(t, { ...options, times: { reachMs: 30 } })
  t.equal(
    (await call(distrusting.url, '/v1/vault/scopes')).status,
    502,
    'a relay with an unknown certificate',
  )
})

t.test('plain ws beyond this machine is said aloud, and clients do not use it', async (t) => {
  const warnings: string[] = []
  const log = {
    debug() {},
    info() {},
    error() {},
    warn: (_: object, message: string) => void warnings.push(message),
  }
  const relay = await startRelay({ host: '0.0.0.0', port: 0, log })
  await relay.close()
  t.match(warnings, [/plain ws/])
  await t.rejects(vaultFor(t, { url: 'ws://relay.example' }), /wss:/)
  for (const url of [
    'http://relay.example',
    'nonsense',
    'wss://user@relay.example',
    'wss://relay.example/?x=1',
  ])
    await t.rejects(vaultFor(t, { url }), /expected/)
})
