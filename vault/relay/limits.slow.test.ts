import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { WebSocket } from 'ws'
import { until } from '../../test/helpers/rawHttp.ts'
import { agentOf, limited, proofOf, vaultAt, type Wire, wire } from '../../test/helpers/vault/remote/wire.ts'
import { relayFor } from '../../test/helpers/vault/remote/world.ts'
import { createKeyPair } from '../channel/suite.ts'
import { frameTypes, routeOf, uint32 } from './frames.ts'
import { addressKey, Buckets } from './limits.ts'

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

t.test('what one address leaves lying costs no other address a connection', async (t) => {
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
  t.equal(await full.closed, 4002, 'places that are held evenly stay where they are')

  // The same for connections that are attached to nothing, regardless of the last bits of their address.
  await until(() => stats().connections === 4)
  const idle = [await wire(t, url, '2001:db8::2'), await wire(t, url, '2001:db8::3')]
  const late = await wire(t, url, '10.0.0.5')
  t.equal(late.socket.readyState, WebSocket.OPEN)
  await idle[1]!.closed
  for (const one of [vault, own, ...others, many[0]!]) t.equal(one.socket.readyState, WebSocket.OPEN)
})

t.test('a client that connects and says nothing, or half of a request, is let go', async (t) => {
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
