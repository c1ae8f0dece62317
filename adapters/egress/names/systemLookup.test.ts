import { Resolver } from 'node:dns/promises'
import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Answer, startNameServer } from '../../../test/helpers/nameServer.ts'
import { createHostResolver } from './resolveHost.ts'
import { type SystemNames, systemNames } from './systemLookup.ts'

const questionMs = 1_250
const known = '192.0.2.1'

interface Given {
  readonly answer?: (name: string, type: 'A' | 'AAAA') => Answer
  readonly hosts?: string
  readonly lookup?: SystemNames['lookup']
  readonly timeoutMs?: number
}

/** A resolver on a system whose name server, hosts file and getaddrinfo are the test's. */
async function start(t: Test, given: Given) {
  const names = await startNameServer(t, given.answer ?? (() => 'NXDOMAIN'))
  const folder = t.testdir({ hosts: given.hosts ?? '' })
  const lookedUp: string[] = []
  const state = { server: names.address }
  const system: SystemNames = {
    hostsFile: join(folder, 'hosts'),
    createResolver(options) {
      const resolver = new Resolver(options)
      resolver.setServers([state.server])
      return resolver
    },
    lookup(host) {
      lookedUp.push(host)
      return given.lookup?.(host) ?? Promise.reject(Object.assign(new Error(host), { code: 'ENOTFOUND' }))
    },
  }
  const resolver = createHostResolver([], given.timeoutMs ?? questionMs, system)
  t.teardown(() => resolver.close())
  return { resolver, names, lookedUp, system, state }
}

/** A system with two name servers, the first of which answers as the test says, and the second is dead. */
async function besideDead(t: Test, given: Given) {
  const dead = await startNameServer(t, () => 'silence')
  return startBeside(t, given, (server) => [server, dead.address])
}

/** A system with several name servers, one of which answers as the test says. */
async function startBeside(t: Test, given: Given, serversOf: (server: string) => readonly string[]) {
  const { system, names } = await start(t, given)
  const createResolver: SystemNames['createResolver'] = (options) => {
    const resolver = new Resolver(options)
    resolver.setServers(serversOf(names.address))
    return resolver
  }
  const resolver = createHostResolver([], given.timeoutMs ?? questionMs, { ...system, createResolver })
  t.teardown(() => resolver.close())
  return resolver
}

/** How long it took in milliseconds, and what came of it. */
async function timed<T>(work: Promise<T>) {
  const startMs = performance.now()
  const outcome = await work.catch((error: NodeJS.ErrnoException) => error.code)
  return { outcome, tookMs: performance.now() - startMs }
}

t.test('names whose servers are silent hold up no other name', async (t) => {
  const { resolver, lookedUp } = await start(t, {
    answer: (name) => (name.endsWith('.silent.test') ? 'silence' : [known]),
  })
  t.strictSame(await resolver.resolve('seller.test'), [known], 'known before')
  const silent = Array.from({ length: 60 }, (_, i) => timed(resolver.resolve(`x${i}.silent.test`)))
  for (let i = 0; i < 5; i++) {
    const { outcome, tookMs } = await timed(resolver.resolve('seller.test'))
    t.strictSame(outcome, [known])
    t.ok(tookMs < 1_000, `answered in ${Math.round(tookMs)} ms, beside 60 that are not`)
    await sleep(500)
  }
  for (const { outcome, tookMs } of await Promise.all(silent)) {
    if (outcome !== 'ETIMEOUT' || tookMs > 4 * questionMs) t.fail(`${outcome} after ${tookMs} ms`)
  }
  t.strictSame(lookedUp, [], 'getaddrinfo is asked for none of them')
})

t.test('a name that takes its name server two seconds is found', async (t) => {
  const { resolver } = await start(t, { answer: () => (performance.now() < readyMs ? 'silence' : [known]) })
  const readyMs = performance.now() + 2_000
  t.strictSame(await resolver.resolve('slow.test'), [known])
})

t.test('a name that its servers fail or refuse is not asked of getaddrinfo', async (t) => {
  const { resolver, lookedUp } = await start(t, {
    answer: (name, type) => (name === 'half.test' && type === 'A' ? 'NXDOMAIN' : 'SERVFAIL'),
  })
  await t.rejects(resolver.resolve('failed.test'), { code: 'ESERVFAIL' })
  await t.rejects(resolver.resolve('half.test'), { code: 'ESERVFAIL' }, 'nor when one family is unknown')
  t.strictSame(lookedUp, [])
})

t.test('both families are asked, IPv4 comes first, and one of them is enough', async (t) => {
  const { resolver } = await start(t, {
    answer: (name, type) => (name === 'both.test' || type === 'AAAA' ? [known, '2001:db8::1'] : 'SERVFAIL'),
  })
  t.strictSame(await resolver.resolve('both.test'), [known, '2001:db8::1'])
  t.strictSame(await resolver.resolve('six.test'), ['2001:db8::1'])
})

t.test('no answer is kept: a name that moved is found where it is now', async (t) => {
  let now = known
  const { resolver } = await start(t, { answer: () => [now] })
  t.strictSame(await resolver.resolve('seller.test'), [known])
  now = '192.0.2.2'
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.2'])
})

t.test('what the hosts file says comes first, in canonical form, and nobody is asked', async (t) => {
  const { resolver, names, lookedUp } = await start(t, {
    answer: () => [known],
    hosts: [
      '# 192.0.2.66 commented.test',
      '2001:DB8:0:0:0:0:0:7\tSeller.test plain # and a comment',
      '  192.0.2.7  seller.test  other.test\r',
      '192.0.2.7 seller.test',
      'fe80::1%lo0 zone.test',
      '0x7f.1 odd.test',
      '',
    ].join('\n'),
  })
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.7', '2001:db8::7'])
  t.strictSame(await resolver.resolve('other.test'), ['192.0.2.7'])
  t.strictSame(await resolver.resolve('plain'), ['2001:db8::7'])
  t.strictSame([...names.questions, ...lookedUp], [])
  for (const name of ['commented.test', 'zone.test', 'odd.test'])
    t.strictSame(await resolver.resolve(name), [known], `${name} is not in it`)
})

t.test('a hosts file that is changed is read again', async (t) => {
  const { resolver, system } = await start(t, { answer: () => [known], hosts: '192.0.2.7 seller.test\n' })
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.7'])
  writeFileSync(system.hostsFile, '192.0.2.8 seller.test\n')
  // As long ago as an editor takes: the times of files are coarse.
  utimesSync(system.hostsFile, 1, 1)
  await sleep(1_050)
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.8'])
})

t.test('localhost never leaves the machine', async (t) => {
  const { resolver, names, lookedUp } = await start(t, { answer: () => [known], lookup: async () => [known] })
  for (const name of ['localhost', 'shop.localhost'])
    t.strictSame(await resolver.resolve(name), ['127.0.0.1', '::1'])
  t.strictSame([...names.questions, ...lookedUp], [])
})

t.test('a name that only getaddrinfo knows is found there', async (t) => {
  const { resolver, names, lookedUp } = await start(t, { lookup: async (host) => [`10.0.0.${host.length}`] })
  t.strictSame(await resolver.resolve('seller'), ['10.0.0.6'])
  t.strictSame(names.questions, [], 'a name without a dot means one of this network')
  t.strictSame(await resolver.resolve('seller.shops'), ['10.0.0.12'])
  t.strictSame(lookedUp, ['seller', 'seller.shops'])
})

t.test('without a name server, getaddrinfo is asked', async (t) => {
  const { system } = await start(t, { lookup: async () => [known] })
  const createResolver: SystemNames['createResolver'] = (options) => {
    const resolver = new Resolver(options)
    // Nobody listens on this port (RFC 6335: reserved).
    resolver.setServers(['127.0.0.1:1'])
    return resolver
  }
  const resolver = createHostResolver([], questionMs, { ...system, createResolver })
  t.teardown(() => resolver.close())
  t.strictSame(await resolver.resolve('seller.test'), [known])
})

t.test('getaddrinfo has at most two questions, and names without a dot wait for no domain', async (t) => {
  const open = new Map<string, () => void>()
  const lookup = (host: string) =>
    new Promise<readonly string[]>((resolve) => open.set(host, () => resolve([known])))
  const { resolver } = await start(t, { lookup })
  const names = ['a.test', 'b.test', 'c.test', 'plain', 'flat']
  const answers = names.map((name) => resolver.resolve(name))
  while (open.size < 2) await sleep(10)
  await sleep(300)
  t.strictSame([...open.keys()].filter((name) => name.includes('.')).length, 1)
  t.strictSame([...open.keys()].filter((name) => !name.includes('.')).length, 1)
  const answered = new Set<string>()
  while (answered.size < names.length) {
    for (const [name, answer] of [...open]) {
      open.delete(name)
      answered.add(name)
      answer()
    }
    await sleep(10)
    if (open.size > 2) t.fail(`${open.size} at once`)
  }
  for (const answer of answers) t.strictSame(await answer, [known])
})

t.test('who waits for getaddrinfo waits no longer than the caller, in a queue with an end', async (t) => {
  let answer = () => {}
  const lookup = () => new Promise<readonly string[]>((resolve) => (answer = () => resolve([known])))
  const { resolver, lookedUp } = await start(t, { lookup, timeoutMs: 200 })
  const first = resolver.resolve('first')
  const waiting = Array.from({ length: 256 }, (_, i) => timed(resolver.resolve(`name${i}`)))
  const beyond = await timed(resolver.resolve('beyond'))
  t.equal(beyond.outcome, 'EAI_AGAIN')
  t.ok(beyond.tookMs < 100, 'fails at once')
  for (const { outcome, tookMs } of await Promise.all(waiting))
    if (outcome !== 'EAI_AGAIN' || tookMs < 790) t.fail(`${outcome} after ${tookMs} ms`)
  t.strictSame(lookedUp, ['first'], 'those that nobody waits for are not asked')
  answer()
  t.strictSame(await first, [known])
  const after = resolver.resolve('after')
  answer()
  t.strictSame(await after, [known], 'the place is free again')
})

t.test('other name servers of the system are asked once they are its servers', async (t) => {
  const { resolver, state } = await start(t, { answer: () => [known] })
  const other = await startNameServer(t, () => ['192.0.2.9'])
  t.strictSame(await resolver.resolve('seller.test'), [known])
  state.server = other.address
  await sleep(3_050)
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.9'])
})

t.test('closing ends what is asked and what waits', async (t) => {
  let answer = () => {}
  const lookup = () => new Promise<readonly string[]>((resolve) => (answer = () => resolve([known])))
  const { resolver } = await start(t, { answer: () => 'silence', lookup })
  const asked = timed(resolver.resolve('silent.test'))
  const running = resolver.resolve('running')
  const waiting = timed(resolver.resolve('waiting'))
  resolver.close()
  t.equal((await asked).outcome, 'ECANCELLED')
  t.equal((await waiting).outcome, 'EAI_AGAIN')
  answer()
  await running
})

t.test("the system's own are taken without being named", async (t) => {
  const resolver = createHostResolver([], questionMs)
  t.teardown(() => resolver.close())
  t.strictSame(await resolver.resolve('localhost'), ['127.0.0.1', '::1'])
  const looked = await systemNames.lookup('localhost')
  t.ok(looked.includes('127.0.0.1') || looked.includes('::1'), 'by getaddrinfo')
})

t.test('a name that none of several servers answers is given up before its caller gives up', async (t) => {
  const timeoutMs = 400
  const resolver = await besideDead(t, { answer: () => 'silence', timeoutMs })
  const { outcome, tookMs } = await timed(resolver.resolve('silent.test'))
  t.equal(outcome, 'ETIMEOUT')
  t.ok(tookMs < 4 * timeoutMs, `after ${Math.round(tookMs)} ms`)
})

t.test('names whose servers are silent hold up no other name where one server is dead', async (t) => {
  const timeoutMs = 400
  const resolver = await besideDead(t, {
    answer: (name) => (name.endsWith('.silent.test') ? 'silence' : [known]),
    timeoutMs,
  })
  let isOver = false
  async function askSilent(): Promise<void> {
    while (!isOver)
      await Promise.all(Array.from({ length: 300 }, (_, i) => timed(resolver.resolve(`x${i}.silent.test`))))
  }
  const silent = askSilent()
  for (let i = 0; i < 100; i++) {
    const { outcome, tookMs } = await timed(resolver.resolve(`seller${i}.test`))
    if (outcome?.[0] !== known || tookMs > 4 * timeoutMs)
      t.fail(`${outcome} after ${Math.round(tookMs)} ms, for which nobody waits any more`)
    await sleep(100)
  }
  isOver = true
  await silent
})

t.test('however many servers do not answer, a name is given up before its caller gives up', async (t) => {
  const timeoutMs = 400
  const dead = await Promise.all(Array.from({ length: 6 }, () => startNameServer(t, () => 'silence')))
  const addresses = dead.map(({ address }) => address)
  const resolver = await startBeside(t, { timeoutMs }, () => addresses)
  const { outcome, tookMs } = await timed(resolver.resolve('silent.test'))
  t.equal(outcome, 'ETIMEOUT')
  t.ok(tookMs < 4 * timeoutMs, `after ${Math.round(tookMs)} ms`)
  for (const { questions } of dead) t.ok(questions.length > 0, 'each was asked')
})

t.test('a first server that is dead holds up only the names that find it so', async (t) => {
  const dead = await startNameServer(t, () => 'silence')
  const resolver = await startBeside(t, { answer: () => [known] }, (server) => [dead.address, server])
  const first = await timed(resolver.resolve('first.test'))
  t.strictSame(first.outcome, [known])
  t.ok(first.tookMs < 1.5 * questionMs, `found after ${Math.round(first.tookMs)} ms`)
  const second = await timed(resolver.resolve('second.test'))
  t.strictSame(second.outcome, [known])
  t.ok(second.tookMs < 500, `then in ${Math.round(second.tookMs)} ms`)
})

t.test('what a server fails, the next one is asked at once; what it does not know, none', async (t) => {
  const other = await startNameServer(t, () => ['192.0.2.9'])
  const resolver = await startBeside(
    t,
    { answer: (name) => (name === 'failed.test' ? 'SERVFAIL' : 'NXDOMAIN') },
    (server) => [server, other.address],
  )
  const { outcome, tookMs } = await timed(resolver.resolve('failed.test'))
  t.strictSame(outcome, ['192.0.2.9'])
  t.ok(tookMs < 500, `in ${Math.round(tookMs)} ms`)
  await t.rejects(resolver.resolve('unknown.test'), { code: 'ENOTFOUND' })
  t.strictSame([...other.questions].sort(), ['A failed.test', 'AAAA failed.test'])
})

t.test(
  'a name that only the second server finds waits for the first one once, not at each look-up',
  async (t) => {
    const other = await startNameServer(t, () => ['192.0.2.9'])
    const resolver = await startBeside(
      t,
      { answer: (name) => (name === 'internal.test' ? 'silence' : [known]) },
      (server) => [server, other.address],
    )
    let asked = 0
    // The first one answers others all the time, so that nobody calls it silent.
    const others = setInterval(() => void timed(resolver.resolve(`seller${asked++}.test`)), 20)
    t.teardown(() => clearInterval(others))
    t.strictSame(await resolver.resolve('internal.test'), ['192.0.2.9'])
    for (let i = 0; i < 3; i++) {
      const { outcome, tookMs } = await timed(resolver.resolve('internal.test'))
      t.strictSame(outcome, ['192.0.2.9'])
      t.ok(tookMs < 500, `in ${Math.round(tookMs)} ms`)
    }
    t.strictSame(await resolver.resolve('seller.test'), [known], 'which stays the first for others')
  },
)

t.test('IPv6 addresses that nobody tells are not waited for where there are IPv4 ones', async (t) => {
  const { resolver } = await start(t, { answer: (_name, type) => (type === 'A' ? [known] : 'silence') })
  const { outcome, tookMs } = await timed(resolver.resolve('half.test'))
  t.strictSame(outcome, [known])
  t.ok(tookMs < 1_000, `after ${Math.round(tookMs)} ms`)
})
