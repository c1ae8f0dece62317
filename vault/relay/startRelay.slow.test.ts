import { createHash, randomBytes, sign } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { until } from '../../test/helpers/rawHttp.ts'
import { selfSignedCertificate } from '../../test/helpers/servers/selfSignedCertificate.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import {
  offerFor,
  proxyFor,
  proxyOptions,
  relayFor,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import { createKeyPair, type KeyPair, privateKeyObject } from '../channel/suite.ts'
import {
  frame,
  frameTypes,
  MAX_FRAME_BYTES,
  registrationBytes,
  relayPath,
  routeOf,
  uint32,
} from './frames.ts'
import { addressKey, Buckets, type RelayLimits } from './limits.ts'
import { startRelay } from './startRelay.ts'

/** A connection that uses the relay's frames directly. */
interface Wire {
  readonly socket: WebSocket
  readonly challenge: Buffer
  /** The received frames, after the challenge. */
  readonly frames: Buffer[]
  send(type: number, ...fields: Uint8Array[]): void
  /** Waits for a frame of this type; returns it without its type. */
  next(type: number): Promise<Buffer>
  readonly closed: Promise<number>
}

/** @param from the address that a proxy in front of the relay would have seen */
async function wire(t: Test, url: string, from?: string): Promise<Wire> {
  const headers = from === undefined ? {} : { 'x-forwarded-for': from }
  const socket = new WebSocket(url + relayPath, { headers })
  t.teardown(() => socket.terminate())
  const frames: Buffer[] = []
  socket.on('message', (data) => frames.push(data as Buffer))
  const closed = new Promise<number>((resolve) => socket.on('close', resolve))
  socket.on('error', () => {})
  await until(() => frames.length > 0 || socket.readyState === WebSocket.CLOSED, 'the challenge')
  const challenge = frames.shift()?.subarray(1) ?? Buffer.alloc(0)
  return {
    socket,
    challenge,
    frames,
    closed,
    send: (type, ...fields) => socket.send(frame(type, ...fields)),
    async next(type) {
      await until(() => frames.some((one) => one[0] === type), `frame ${type}`)
      const at = frames.findIndex((one) => one[0] === type)
      return frames.splice(at, 1)[0]!.subarray(1)
    },
  }
}

const proofOf = (keys: KeyPair, challenge: Buffer): Buffer =>
  sign(null, registrationBytes(challenge, keys.publicKey), privateKeyObject('Ed25519', keys))

async function vaultAt(t: Test, url: string, keys: KeyPair, from?: string): Promise<Wire> {
  const vault = await wire(t, url, from)
  vault.send(frameTypes.register, keys.publicKey, proofOf(keys, vault.challenge))
  t.same(await vault.next(frameTypes.registered), routeOf(keys.publicKey))
  return vault
}

const limited = (t: Test, limits: Partial<RelayLimits>) => relayFor(t, { limits })

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

t.test('each limit holds', async (t) => {
  await t.test('connections of one address', async (t) => {
    const { url } = await limited(t, { maxConnectionsPerIp: 2 })
    const open = [await wire(t, url), await wire(t, url)]
    t.equal((await wire(t, url)).socket.readyState, WebSocket.CLOSED)
    open[0]!.socket.close()
    await open[0]!.closed
    await until(async () => (await wire(t, url)).challenge.length > 0, 'room again')
  })
  await t.test('new connections a minute', async (t) => {
    const clock = { now: () => 0 }
    const { url } = await relayFor(t, { clock, limits: { connectsPerMinutePerIp: 2 } })
    for (const isWelcome of [true, true, false]) t.equal((await wire(t, url)).challenge.length > 0, isWelcome)
    clock.now = () => 30_000
    t.ok((await wire(t, url)).challenge.length > 0, 'half a minute later one more')
  })
  await t.test('connections of all', async (t) => {
    const { url } = await limited(t, { maxConnections: 1 })
    await wire(t, url)
    t.equal((await wire(t, url)).challenge.length, 0)
  })
  await t.test('routing ids of one vault', async (t) => {
    const { url } = await limited(t, { maxRoutesPerVault: 1 })
    const [keys, more] = [createKeyPair('Ed25519'), createKeyPair('Ed25519')]
    const vault = await vaultAt(t, url, keys)
    vault.send(frameTypes.register, more!.publicKey, proofOf(more!, vault.challenge))
    await vault.next(frameTypes.refused)
    vault.send(frameTypes.register, keys.publicKey, proofOf(keys, vault.challenge))
    await vault.next(frameTypes.registered)
  })
  await t.test('agents of one routing id', async (t) => {
    const { url } = await limited(t, { maxAgentsPerRoute: 1 })
    const route = randomBytes(16)
    const first = await wire(t, url)
    first.send(frameTypes.attach, route)
    await first.next(frameTypes.absent)
    const second = await wire(t, url)
    second.send(frameTypes.attach, route)
    t.equal(await second.closed, 4002)
  })
  await t.test('time to say what one is', async (t) => {
    const { url } = await limited(t, { identifyMs: 20 })
    t.equal(await (await wire(t, url)).closed, 4001)
  })
  await t.test('answering pings', async (t) => {
    const { url, stats } = await limited(t, { pingMs: 10, identifyMs: 60_000 })
    const dead = await wire(t, url)
    dead.socket.pause() // reads no ping, so answers none
    await until(() => stats().connections === 0)
  })
})

t.test('who does not read holds up who writes to it, and the relay’s memory stays small', async (t) => {
  const maxBufferedBytes = 1024 * 1024
  const { url, stats } = await limited(t, { maxBufferedBytes, framesPerSecondPerIp: 100_000 })
  const keys = createKeyPair('Ed25519')
  const vault = await vaultAt(t, url, keys)
  const agent = await wire(t, url)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.present)
  vault.socket.pause()
  const chunk = randomBytes(256 * 1024)
  const count = 160
  for (let i = 0; i < count; i++) agent.send(frameTypes.payload, uint32(i), chunk)
  await until(() => stats().backlogBytes >= maxBufferedBytes, 'a full queue')
  t.ok(stats().backlogBytes < maxBufferedBytes * 2, `${stats().backlogBytes} bytes wait at the relay`)
  t.ok(agent.socket.bufferedAmount > 0, 'the rest waits where it comes from')
  vault.socket.resume()
  await until(() => vault.frames.length === count, 'all of it')
  t.strictSame(
    vault.frames.map((one) => one.readUInt32BE(21)),
    Array.from({ length: count }, (_, i) => i),
    'in order, none lost',
  )
  t.ok(
    vault.frames.every((one) =>
      createHash('sha1').update(one.subarray(25)).digest().equals(createHash('sha1').update(chunk).digest()),
    ),
  )
})

async function agentOf(t: Test, url: string, keys: KeyPair, from?: string): Promise<Wire> {
  const agent = await wire(t, url, from)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.present)
  return agent
}

t.test(
  'a flood by one routing id makes no other of the same vault wait, or lose its connection',
  async (t) => {
    const maxBufferedBytes = 1024 * 1024
    const limits = { maxBufferedBytes, framesPerSecondPerIp: 100_000 }
    const { url, stats } = await relayFor(t, { limits, trustProxy: true })
    const [flooded, quiet] = [createKeyPair('Ed25519'), createKeyPair('Ed25519')]
    const vault = await vaultAt(t, url, flooded, '10.0.0.1')
    vault.send(frameTypes.register, quiet.publicKey, proofOf(quiet, vault.challenge))
    await vault.next(frameTypes.registered)
    const floods = []
    for (let i = 0; i < 10; i++) floods.push(await agentOf(t, url, flooded, `10.1.0.${i}`))
    const other = await agentOf(t, url, quiet, '10.2.0.1')
    vault.socket.pause()
    const chunk = randomBytes(400 * 1024)
    for (let round = 0; round < 4; round++)
      for (const flood of floods)
        if (flood.socket.readyState === WebSocket.OPEN) flood.send(frameTypes.payload, chunk)
    await Promise.race(floods.map(({ closed }) => closed))
    for (let i = 0; i < 3; i++) other.send(frameTypes.payload, Buffer.from(`quiet ${i}`))
    await until(() => stats().backlogBytes > 0)
    t.ok(stats().backlogBytes <= maxBufferedBytes * 2, `${stats().backlogBytes} bytes wait at the relay`)
    vault.socket.resume()
    const received = () =>
      vault.frames.filter((one) => one.subarray(21).toString('latin1').startsWith('quiet'))
    await until(() => received().length === 3, 'the quiet one')
    t.strictSame(
      received().map((one) => one.subarray(21).toString()),
      ['quiet 0', 'quiet 1', 'quiet 2'],
    )
    t.equal(other.socket.readyState, WebSocket.OPEN)
    t.equal(vault.socket.readyState, WebSocket.OPEN)
  },
)

t.test('what one address leaves lying costs nobody else a connection', async (t) => {
  const maxTotalBufferedBytes = 2 * 1024 * 1024
  const limits = { maxTotalBufferedBytes, maxBufferedBytes: 1024 * 1024, framesPerSecondPerIp: 100_000 }
  const { url, stats } = await relayFor(t, { limits, trustProxy: true })
  const [hoard, keys] = [createKeyPair('Ed25519'), createKeyPair('Ed25519')]
  // A vault and agents of one owner, who reads nothing of what they send.
  const hoarder = await vaultAt(t, url, hoard, '10.0.0.1')
  const slow: Wire[] = []
  for (let i = 0; i < 6; i++) {
    const agent = await agentOf(t, url, hoard, '10.0.0.1')
    agent.send(frameTypes.payload, Buffer.from('hello'))
    slow.push(agent)
  }
  const [vault, agent] = [await vaultAt(t, url, keys, '10.0.0.2'), await agentOf(t, url, keys, '10.0.0.3')]
  await until(() => hoarder.frames.length >= 6)
  for (const one of slow) one.socket.pause()
  const chunk = randomBytes(250 * 1024)
  let responses = 0
  for (let round = 0; round < 30; round++) {
    for (const hello of hoarder.frames.slice(0, 6))
      hoarder.send(frameTypes.toAgent, hello.subarray(1, 5), chunk)
    agent.send(frameTypes.payload, uint32(round))
    const pendingApproval = await vault.next(frameTypes.fromAgent)
    vault.send(frameTypes.toAgent, pendingApproval.subarray(0, 4), uint32(round))
    if ((await agent.next(frameTypes.payload)).readUInt32BE() === round) responses++
    t.ok(stats().backlogBytes <= maxTotalBufferedBytes)
  }
  t.equal(responses, 30)
  await until(() => stats().agents < 7, 'the slow ones being let go')
  t.equal(agent.socket.readyState, WebSocket.OPEN)
})

t.test('an address that holds many places makes room for one that holds none', async (t) => {
  const limits = { maxConnections: 6, maxAgentsPerRoute: 3, connectsPerMinutePerIp: 1_000 }
  const { url, stats } = await relayFor(t, { limits, trustProxy: true })
  const keys = createKeyPair('Ed25519')
  const vault = await vaultAt(t, url, keys, '10.0.0.1')
  const many = []
  for (let i = 0; i < 3; i++) many.push(await agentOf(t, url, keys, '2001:db8::1'))
  const own = await agentOf(t, url, keys, '10.0.0.2')
  t.equal(await many[2]!.closed, 4002, 'the newest of the many')
  const others = [await agentOf(t, url, keys, '10.0.0.3')]
  t.equal(await many[1]!.closed, 4002)
  const full = await wire(t, url, '10.0.0.4')
  full.send(frameTypes.attach, routeOf(keys.publicKey))
  t.equal(await full.closed, 4002, 'places that are held evenly stay with whoever has them')

  // The same for connections that are attached to nothing, regardless of the last bits of their address.
  await until(() => stats().connections === 4)
  const idle = [await wire(t, url, '2001:db8::2'), await wire(t, url, '2001:db8::3')]
  const late = await wire(t, url, '10.0.0.5')
  t.equal(late.socket.readyState, WebSocket.OPEN)
  await idle[1]!.closed
  for (const one of [vault, own, ...others, many[0]!]) t.equal(one.socket.readyState, WebSocket.OPEN)
})

t.test('whoever connects and says nothing, or half of a request, is let go', async (t) => {
  const { port } = await limited(t, { identifyMs: 50, maxConnectionsPerIp: 3 })
  const open = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.resume()
    t.teardown(() => socket.destroy())
    socket.write(text)
    await once(socket, 'close')
  }
  await Promise.all([open(''), open('GET /v1/re'), open('GET /v1/relay HTTP/1.1\r\nUpgrade: webs')])
  // More sockets of one address than it may have are closed before a byte is read.
  const sockets = Array.from({ length: 60 }, () => connect(port, '127.0.0.1'))
  let closed = 0
  for (const socket of sockets) {
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.resume()
    socket.once('close', () => closed++)
  }
  await until(() => closed >= 25, 'those beyond the bound')
})

t.test('sockets of many addresses that never open leave room for one that does', async (t) => {
  const relay = await limited(t, { maxConnections: 8 })
  const closed: string[] = []
  const hold = async (localAddress: string, count: number) => {
    for (let i = 0; i < count; i++) {
      const socket = connect({ port: relay.port, host: '127.0.0.1', localAddress })
      t.teardown(() => socket.destroy())
      socket.on('error', () => {})
      socket.on('close', () => closed.push(localAddress))
      await once(socket, 'connect')
      socket.write('GET /v1/relay HTTP/1.1\r\n')
    }
  }
  await hold('127.0.0.5', 1)
  for (let last = 2; last <= 4; last++) await hold(`127.0.0.${last}`, 20)
  const agent = await wire(t, relay.url)
  agent.send(frameTypes.attach, randomBytes(16))
  await agent.next(frameTypes.absent)
  await until(() => closed.length >= 61 - 8)
  t.notOk(closed.includes('127.0.0.5'), 'who holds little keeps it')
  t.equal(relay.stats().connections, 1)
})

t.test('an address is counted by its network', async (t) => {
  for (const [address, key] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
  ] as const)
    t.equal(addressKey(address), key)
})

t.test('an agent that does not read is let go; the vault serves the others on', async (t) => {
  const { url, stats } = await limited(t, { maxBufferedBytes: 512 * 1024, framesPerSecondPerIp: 100_000 })
  const keys = createKeyPair('Ed25519')
  const vault = await vaultAt(t, url, keys)
  const connect = async () => {
    const agent = await wire(t, url)
    agent.send(frameTypes.attach, routeOf(keys.publicKey))
    await agent.next(frameTypes.present)
    agent.send(frameTypes.payload, Buffer.from('hello'))
    return { agent, id: (await vault.next(frameTypes.fromAgent)).subarray(0, 4) }
  }
  const [slow, quick] = [await connect(), await connect()]
  slow.agent.socket.pause()
  const chunk = randomBytes(256 * 1024)
  for (let i = 0; i < 80; i++) vault.send(frameTypes.toAgent, slow.id, chunk)
  vault.send(frameTypes.toAgent, quick.id, Buffer.from('answer'))
  t.equal((await quick.agent.next(frameTypes.payload)).toString(), 'answer')
  await until(() => stats().agents === 1, 'the slow one being gone')
  await until(() => stats().backlogBytes === 0, 'what waited for it being forgotten')
})

t.test(
  'a flood of frames is slowed down and loses nothing; who keeps to the rate is not held up',
  async (t) => {
    const { url, stats } = await limited(t, { framesPerSecondPerIp: 200 })
    const keys = createKeyPair('Ed25519')
    const vault = await vaultAt(t, url, keys)
    const agent = await wire(t, url)
    agent.send(frameTypes.attach, routeOf(keys.publicKey))
    await agent.next(frameTypes.present)
    t.equal(stats().slowed, 0)
    for (let i = 0; i < 300; i++) agent.send(frameTypes.payload, uint32(i))
    await until(() => vault.frames.length === 300)
    t.ok(stats().slowed > 0)
    t.strictSame(
      vault.frames.map((one) => one.readUInt32BE(21)),
      Array.from({ length: 300 }, (_, i) => i),
    )
  },
)

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

t.test('buckets give their rate and forget who is gone', async (t) => {
  const buckets = new Buckets(2, 1)
  t.strictSame(
    [0, 0, 0].map(() => buckets.take('a', 0)),
    [0, 0, 1000],
  )
  t.equal(buckets.take('b', 0), 0, 'each key has its own')
  t.equal(buckets.take('a', 500), 500)
  t.equal(buckets.take('a', 1000), 0)
  t.equal(buckets.take('a', 0), 1000, 'a clock that goes back gives nothing')
  buckets.sweep(60_000)
  t.equal(buckets.size, 0)
})
