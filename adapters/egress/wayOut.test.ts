import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { freePort } from '../../test/helpers/freePort.ts'
import { startNameServer } from '../../test/helpers/nameServer.ts'
import { createEgress } from './createEgress.ts'
import { WayOut } from './wayOut.ts'

function start() {
  const clock = { nowMs: 1_000_000, now: () => clock.nowMs }
  return { clock, wayOut: new WayOut(clock) }
}

function connection(remoteAddress = '93.184.215.14') {
  const socket = Object.assign(new EventEmitter(), { bytesRead: 0, remoteAddress })
  return socket as typeof socket & Socket & { bytesRead: number }
}

function saying(code: string, address?: string) {
  return Object.assign(new Error(code), { code, address })
}

t.test('nothing is known before anything was tried', async (t) => {
  t.equal(start().wayOut.state(), 'unknown')
})

t.test('one seller that can not be reached is that seller’s matter, two at once are ours', async (t) => {
  const { wayOut } = start()
  for (let i = 0; i < 10; i++) wayOut.failed('one:80', saying('EGRESS_TIMEOUT'))
  t.equal(wayOut.state(), 'unknown')
  wayOut.failed('two:80', saying('EHOSTUNREACH'))
  t.equal(wayOut.state(), 'down')
})

t.test('an answer of any kind from out there means up', async (t) => {
  for (const code of ['ECONNREFUSED', 'ECONNRESET', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT']) {
    const { wayOut } = start()
    wayOut.failed('one:80', saying('EAI_AGAIN'))
    wayOut.failed('two:80', saying('EAI_AGAIN'))
    wayOut.failed('three:443', saying(code))
    t.equal(wayOut.state(), 'up', code)
  }
})

t.test('names that do not exist say nothing either way', async (t) => {
  const { wayOut } = start()
  for (let i = 0; i < 10; i++) wayOut.failed(`${i}:80`, saying('ENOTFOUND'))
  t.equal(wayOut.state(), 'unknown')
})

t.test('a verdict ages', async (t) => {
  const { clock, wayOut } = start()
  wayOut.failed('one:80', saying('ENETUNREACH'))
  clock.nowMs += 29_000
  wayOut.failed('two:80', saying('ENETUNREACH'))
  t.equal(wayOut.state(), 'down')
  clock.nowMs += 2_000
  t.equal(wayOut.state(), 'unknown', 'one of the two failures is too old')
  wayOut.reached(connection())
  t.equal(wayOut.state(), 'up')
  clock.nowMs += 31_000
  t.equal(wayOut.state(), 'unknown')
})

t.test('an open connection that still brings bytes outweighs new ones that fail', async (t) => {
  const { clock, wayOut } = start()
  const [busy, quiet] = [connection(), connection()]
  wayOut.reached(busy)
  wayOut.reached(quiet)
  clock.nowMs += 60_000
  busy.bytesRead = 5_000
  wayOut.failed('one:80', saying('EGRESS_TIMEOUT'))
  wayOut.failed('two:80', saying('EGRESS_TIMEOUT'))
  t.equal(wayOut.state(), 'down', 'bytes from before the failures prove nothing')
  busy.bytesRead = 5_001
  t.equal(wayOut.state(), 'up')
  busy.emit('close')
  t.equal(wayOut.state(), 'down')
})

t.test('what this machine itself answers says nothing about the way out', async (t) => {
  const { wayOut } = start()
  wayOut.reached(connection('127.0.0.1'))
  wayOut.reached(connection('::1'))
  wayOut.failed('local:80', saying('ECONNREFUSED', '127.0.0.1'))
  t.equal(wayOut.state(), 'unknown')
  wayOut.failed('one:80', saying('ENETUNREACH', '93.184.215.14'))
  wayOut.failed('two:80', saying('EAI_AGAIN'))
  t.equal(wayOut.state(), 'down')
})

t.test('of several addresses that failed the first one counts', async (t) => {
  const { wayOut } = start()
  for (const origin of ['one:80', 'two:80']) {
    wayOut.failed(origin, new AggregateError([saying('EHOSTUNREACH'), saying('ENETUNREACH')]))
  }
  t.equal(wayOut.state(), 'down')
})

t.test('the way out of a gateway whose name server fails is down', async (t) => {
  const names = await startNameServer(t, () => 'SERVFAIL')
  const egress = createEgress({ dnsServers: [names.address] })
  t.teardown(() => egress.close())
  t.equal(egress.wayOut(), 'unknown')
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_UNREACHABLE' })
  }
  t.equal(egress.wayOut(), 'down')
})

t.test('nor does one that refuses to be asked stand for a machine out there', async (t) => {
  const egress = createEgress({ dnsServers: [`127.0.0.1:${await freePort()}`] })
  t.teardown(() => egress.close())
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_UNREACHABLE' })
  }
  t.equal(egress.wayOut(), 'down')
})

t.test('a gateway without descriptors or memory for another connection has itself to blame', async (t) => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']) {
    const { clock, wayOut } = start()
    const busy = connection()
    wayOut.reached(busy)
    wayOut.failed('one:80', saying(code, '93.184.215.14'))
    busy.bytesRead = 5_000
    wayOut.reached(connection())
    t.equal(wayOut.state(), 'down', `${code}: whatever else comes about meanwhile`)
    clock.nowMs += 31_000
    t.not(wayOut.state(), 'down', code)
  }
})

t.test('a link to a private address does not tell the judge anything', async (t) => {
  const names = await startNameServer(t, () => ['10.0.0.1'])
  const egress = createEgress({ dnsServers: [names.address] })
  t.teardown(() => egress.close())
  for (const name of ['one.test', 'two.test']) {
    await t.rejects(egress.connect(new URL(`http://${name}/`)), { code: 'EGRESS_REFUSED' })
  }
  t.equal(egress.wayOut(), 'unknown')
})
