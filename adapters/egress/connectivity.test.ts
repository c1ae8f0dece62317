import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { freePort } from '../../test/helpers/freePort.ts'
import { startNameServer } from '../../test/helpers/servers/nameServer.ts'
import { createEgress } from './egress.ts'
import { Connectivity } from './sockets.ts'

function start() {
  const clock = { nowMs: 1_000_000, now: () => clock.nowMs }
  return { clock, connectivity: new Connectivity(clock) }
}

function connection(remoteAddress = '93.184.215.14') {
  const socket = Object.assign(new EventEmitter(), { bytesRead: 0, remoteAddress })
  return socket as typeof socket & Socket & { bytesRead: number }
}

function saying(code: string, address?: string) {
  return Object.assign(new Error(code), { code, address })
}

t.test('nothing is known before anything was tried', async (t) => {
  t.equal(start().connectivity.state(), 'unknown')
})

t.test('one seller that can not be reached is that seller’s matter, two at once are ours', async (t) => {
  const { connectivity } = start()
  for (let i = 0; i < 10; i++) connectivity.failed('one:80', saying('EGRESS_TIMEOUT'))
  t.equal(connectivity.state(), 'unknown')
  connectivity.failed('two:80', saying('EHOSTUNREACH'))
  t.equal(connectivity.state(), 'down')
})

t.test('an answer of any kind from out there means up', async (t) => {
  for (const code of ['ECONNREFUSED', 'ECONNRESET', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT']) {
    const { connectivity } = start()
    connectivity.failed('one:80', saying('EAI_AGAIN'))
    connectivity.failed('two:80', saying('EAI_AGAIN'))
    connectivity.failed('three:443', saying(code))
    t.equal(connectivity.state(), 'up', code)
  }
})

t.test('names that do not exist say nothing either way', async (t) => {
  const { connectivity } = start()
  for (let i = 0; i < 10; i++) connectivity.failed(`${i}:80`, saying('ENOTFOUND'))
  t.equal(connectivity.state(), 'unknown')
})

t.test('a verdict ages', async (t) => {
  const { clock, connectivity } = start()
  connectivity.failed('one:80', saying('ENETUNREACH'))
  clock.nowMs += 29_000
  connectivity.failed('two:80', saying('ENETUNREACH'))
  t.equal(connectivity.state(), 'down')
  clock.nowMs += 2_000
  t.equal(connectivity.state(), 'unknown', 'one of the two failures is too old')
  connectivity.reached(connection())
  t.equal(connectivity.state(), 'up')
  clock.nowMs += 31_000
  t.equal(connectivity.state(), 'unknown')
})

t.test('an open connection that still brings bytes outweighs new ones that fail', async (t) => {
  const { clock, connectivity } = start()
  const [busy, quiet] = [connection(), connection()]
  connectivity.reached(busy)
  connectivity.reached(quiet)
  clock.nowMs += 60_000
  busy.bytesRead = 5_000
  connectivity.failed('one:80', saying('EGRESS_TIMEOUT'))
  connectivity.failed('two:80', saying('EGRESS_TIMEOUT'))
  t.equal(connectivity.state(), 'down', 'bytes from before the failures prove nothing')
  busy.bytesRead = 5_001
  t.equal(connectivity.state(), 'up')
  busy.emit('close')
  t.equal(connectivity.state(), 'down')
})

t.test('what this machine itself answers says nothing about connectivity', async (t) => {
  const { connectivity } = start()
  connectivity.reached(connection('127.0.0.1'))
  connectivity.reached(connection('::1'))
  connectivity.failed('local:80', saying('ECONNREFUSED', '127.0.0.1'))
  t.equal(connectivity.state(), 'unknown')
  connectivity.failed('one:80', saying('ENETUNREACH', '93.184.215.14'))
  connectivity.failed('two:80', saying('EAI_AGAIN'))
  t.equal(connectivity.state(), 'down')
})

t.test('of several addresses that failed the first one counts', async (t) => {
  const { connectivity } = start()
  for (const origin of ['one:80', 'two:80']) {
    connectivity.failed(origin, new AggregateError([saying('EHOSTUNREACH'), saying('ENETUNREACH')]))
  }
  t.equal(connectivity.state(), 'down')
})

t.test('a gateway whose name server fails has no connectivity', async (t) => {
  const names = await startNameServer(t, () => 'SERVFAIL')
  const egress = createEgress({ dnsServers: [names.address] })
  t.teardown(() => egress.close())
  t.equal(egress.connectivity(), 'unknown')
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_UNREACHABLE' })
  }
  t.equal(egress.connectivity(), 'down')
})

t.test('nor does one that refuses to be asked stand for a machine out there', async (t) => {
  const egress = createEgress({ dnsServers: [`127.0.0.1:${await freePort()}`] })
  t.teardown(() => egress.close())
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_UNREACHABLE' })
  }
  t.equal(egress.connectivity(), 'down')
})

t.test('a gateway without descriptors or memory for another connection has itself to blame', async (t) => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']) {
    const { clock, connectivity } = start()
    const busy = connection()
    connectivity.reached(busy)
    connectivity.failed('one:80', saying(code, '93.184.215.14'))
    busy.bytesRead = 5_000
    connectivity.reached(connection())
    t.equal(connectivity.state(), 'down', `${code}: whatever else comes about meanwhile`)
    clock.nowMs += 31_000
    t.not(connectivity.state(), 'down', code)
  }
})

t.test('a link to a private address does not tell the judge anything', async (t) => {
  const names = await startNameServer(t, () => ['10.0.0.1'])
  const egress = createEgress({ dnsServers: [names.address] })
  t.teardown(() => egress.close())
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_REFUSED' })
  }
  t.equal(egress.connectivity(), 'unknown')
})
