import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { WebSocket } from 'ws'
import { until } from '../../test/helpers/rawHttp.ts'
import { agentOf, limited, proofOf, vaultAt, wire } from '../../test/helpers/vault/remote/wire.ts'
import { relayFor } from '../../test/helpers/vault/remote/world.ts'
import { createKeyPair } from '../channel/suite.ts'
import { frameTypes, routeOf, uint32 } from './frames.ts'

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
