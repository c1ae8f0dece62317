import { Resolver } from 'node:dns/promises'
import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Answer, startNameServer } from '../../../test/helpers/servers/nameServer.ts'
import { createHostResolver } from './resolveHost.ts'
import { type SystemNames, systemNames } from './systemLookup.ts'

const questionMs = 1_250
const known = '192.0.2.1'

interface Given {
  readonly respond?: (name: string, type: 'A' | 'AAAA') => Answer
  readonly hosts?: string
  readonly lookup?: SystemNames['lookup']
  readonly timeoutMs?: number
}

/** A resolver on a system whose name server, hosts file and getaddrinfo are the test's. */
async function start(t: Test, given: Given) {
  const names = await startNameServer(t, given.respond ?? (() => 'NXDOMAIN'))
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

/** A system with several name servers, one of which responds as the test sets. */
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

/** What was resolved, or the code of the error. */
const outcomeOf = <T>(work: Promise<T>): Promise<T | string | undefined> =>
  work.catch((error: NodeJS.ErrnoException) => error.code)

/** A limit that only a resolver which waits for a silent server comes close to. */
const longMs = 60_000

/** What was resolved, or `late` where it waited for a server that had {@link longMs}. */
const atOnce = <T>(work: Promise<T>) =>
  Promise.race([outcomeOf(work), sleep(longMs / 3, 'late', { ref: false })])

t.test('names whose servers are silent hold up no other name', async (t) => {
  const { resolver, lookedUp } = await start(t, {
    respond: (name) => (name.endsWith('.silent.test') ? 'silence' : [known]),
  })
  t.strictSame(await resolver.resolve('seller.test'), [known], 'known before')
  let settled = 0
  const silent = Array.from({ length: 60 }, (_, i) =>
    outcomeOf(resolver.resolve(`x${i}.silent.test`)).finally(() => settled++),
  )
  t.strictSame(await resolver.resolve('seller.test'), [known])
  t.equal(settled, 0, 'resolved while 60 silent names are still pending')
  for (let i = 0; i < 4; i++) {
    await sleep(500)
    t.strictSame(await resolver.resolve('seller.test'), [known])
  }
  t.strictSame([...new Set(await Promise.all(silent))], ['ETIMEOUT'])
  t.strictSame(lookedUp, [], 'getaddrinfo is asked for none of them')
})

t.test('a name that takes its name server two seconds is found', async (t) => {
  const { resolver } = await start(t, { respond: () => (performance.now() < readyMs ? 'silence' : [known]) })
  const readyMs = performance.now() + 2_000
  t.strictSame(await resolver.resolve('slow.test'), [known])
})

t.test('a name that its servers fail or refuse is not asked of getaddrinfo', async (t) => {
  const { resolver, lookedUp } = await start(t, {
    respond: (name, type) => (name === 'half.test' && type === 'A' ? 'NXDOMAIN' : 'SERVFAIL'),
  })
  await t.rejects(resolver.resolve('failed.test'), { code: 'ESERVFAIL' })
  await t.rejects(resolver.resolve('half.test'), { code: 'ESERVFAIL' }, 'nor when one family is unknown')
  t.strictSame(lookedUp, [])
})

t.test('both families are asked, IPv4 comes first, and one of them is enough', async (t) => {
  const { resolver } = await start(t, {
    respond: (name, type) => (name === 'both.test' || type === 'AAAA' ? [known, '2001:db8::1'] : 'SERVFAIL'),
  })
  t.strictSame(await resolver.resolve('both.test'), [known, '2001:db8::1'])
  t.strictSame(await resolver.resolve('six.test'), ['2001:db8::1'])
})

t.test('no answer is kept: a name that moved is found where it is now', async (t) => {
  let now = known
  const { resolver } = await start(t, { respond: () => [now] })
  t.strictSame(await resolver.resolve('seller.test'), [known])
  now = '192.0.2.2'
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.2'])
})

t.test('what the hosts file says comes first, in canonical form, and nobody is asked', async (t) => {
  const { resolver, names, lookedUp } = await start(t, {
    respond: () => [known],
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
  const { resolver, system } = await start(t, { respond: () => [known], hosts: '192.0.2.7 seller.test\n' })
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.7'])
  writeFileSync(system.hostsFile, '192.0.2.8 seller.test\n')
  // As long ago as an editor takes: the times of files are coarse.
  utimesSync(system.hostsFile, 1, 1)
  await sleep(1_050)
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.8'])
})

t.test('localhost never leaves the machine', async (t) => {
  const { resolver, names, lookedUp } = await start(t, {
    respond: () => [known],
    lookup: async () => [known],
  })
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
    // No server listens on this port (RFC 6335: reserved).
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
  const responses = names.map((name) => resolver.resolve(name))
  while (open.size < 2) await sleep(10)
  await sleep(300)
  t.strictSame([...open.keys()].filter((name) => name.includes('.')).length, 1)
  t.strictSame([...open.keys()].filter((name) => !name.includes('.')).length, 1)
  const answered = new Set<string>()
  while (answered.size < names.length) {
    for (const [name, respond] of [...open]) {
      open.delete(name)
      answered.add(name)
      respond()
    }
    await sleep(10)
    if (open.size > 2) t.fail(`${open.size} at once`)
  }
  for (const response of responses) t.strictSame(await response, [known])
})

t.test('who waits for getaddrinfo waits no longer than the caller, in a queue with an end', async (t) => {
  let respond = () => {}
  const lookup = () => new Promise<readonly string[]>((resolve) => (respond = () => resolve([known])))
  const { resolver, lookedUp } = await start(t, { lookup, timeoutMs: 200 })
  const first = resolver.resolve('first')
  const ended: string[] = []
  const startedMs = performance.now()
  const waiting = Array.from({ length: 256 }, (_, i) =>
    outcomeOf(resolver.resolve(`name${i}`)).finally(() => ended.push('waiting')),
  )
  const beyond = outcomeOf(resolver.resolve('beyond')).finally(() => ended.push('beyond'))
  t.equal(await beyond, 'EAI_AGAIN')
  t.strictSame(ended, ['beyond'], 'fails at once')
  t.strictSame([...new Set(await Promise.all(waiting))], ['EAI_AGAIN'])
  t.ok(performance.now() - startedMs >= 790, 'not before the caller gives up')
  t.strictSame(lookedUp, ['first'], 'those that nobody waits for are not asked')
  respond()
  t.strictSame(await first, [known])
  const after = resolver.resolve('after')
  respond()
  t.strictSame(await after, [known], 'the place is free again')
})

t.test('other name servers of the system are asked once they are its servers', async (t) => {
  const { resolver, state } = await start(t, { respond: () => [known] })
  const other = await startNameServer(t, () => ['192.0.2.9'])
  t.strictSame(await resolver.resolve('seller.test'), [known])
  state.server = other.address
  await sleep(3_050)
  t.strictSame(await resolver.resolve('seller.test'), ['192.0.2.9'])
})

t.test('closing ends what is asked and what waits', async (t) => {
  let respond = () => {}
  const lookup = () => new Promise<readonly string[]>((resolve) => (respond = () => resolve([known])))
  const { resolver } = await start(t, { respond: () => 'silence', lookup })
  const queried = outcomeOf(resolver.resolve('silent.test'))
  const running = resolver.resolve('running')
  const waiting = outcomeOf(resolver.resolve('waiting'))
  resolver.close()
  t.equal(await queried, 'ECANCELLED')
  t.equal(await waiting, 'EAI_AGAIN')
  respond()
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
  const resolver = await besideDead(t, { respond: () => 'silence', timeoutMs })
  const callerGivesUp = sleep(4 * timeoutMs, 'too late')
  t.equal(await Promise.race([outcomeOf(resolver.resolve('silent.test')), callerGivesUp]), 'ETIMEOUT')
})

t.test('names whose servers are silent hold up no other name where one server is dead', async (t) => {
  const timeoutMs = 1_250
  const resolver = await besideDead(t, {
    respond: (name) => (name.endsWith('.silent.test') ? 'silence' : [known]),
    timeoutMs,
  })
  let isOver = false
  async function querySilent(): Promise<void> {
    while (!isOver)
      await Promise.all(
        Array.from({ length: 100 }, (_, i) => outcomeOf(resolver.resolve(`x${i}.silent.test`))),
      )
  }
  const silent = querySilent()
  for (let i = 0; i < 40; i++) {
    const outcome = await outcomeOf(resolver.resolve(`seller${i}.test`))
    if (outcome?.[0] !== known) t.fail(`${outcome}`)
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
  const callerGivesUp = sleep(4 * timeoutMs, 'too late')
  t.equal(await Promise.race([outcomeOf(resolver.resolve('silent.test')), callerGivesUp]), 'ETIMEOUT')
  for (const { questions } of dead) t.ok(questions.length > 0, 'each was asked')
})

t.test('a first server that is dead holds up only the names that find it so', async (t) => {
  const dead = await startNameServer(t, () => 'silence')
  const resolver = await startBeside(t, { respond: () => [known] }, (server) => [dead.address, server])
  t.strictSame(await resolver.resolve('first.test'), [known])
  t.strictSame(await resolver.resolve('second.test'), [known])
  t.strictSame([...new Set(dead.questions)].sort(), ['A first.test', 'AAAA first.test'])
})

t.test('what a server fails, the next one is asked at once; what it does not know, none', async (t) => {
  const other = await startNameServer(t, () => ['192.0.2.9'])
  const resolver = await startBeside(
    t,
    { respond: (name) => (name === 'failed.test' ? 'SERVFAIL' : 'NXDOMAIN'), timeoutMs: longMs },
    (server) => [server, other.address],
  )
  t.strictSame(await atOnce(resolver.resolve('failed.test')), ['192.0.2.9'])
  await t.rejects(resolver.resolve('unknown.test'), { code: 'ENOTFOUND' })
  t.strictSame([...other.questions].sort(), ['A failed.test', 'AAAA failed.test'])
})

t.test(
  'a name that only the second server finds waits for the first one once, not at each look-up',
  async (t) => {
    const other = await startNameServer(t, () => ['192.0.2.9'])
    let questions = 0
    const respond = (name: string): Answer => {
      if (name !== 'internal.test') return [known]
      questions++
      return 'silence'
    }
    const resolver = await startBeside(t, { respond }, (server) => [server, other.address])
    let queried = 0
    // The first server keeps responding to other names, so it does not count as silent.
    const others = setInterval(() => void outcomeOf(resolver.resolve(`seller${queried++}.test`)), 20)
    t.teardown(() => clearInterval(others))
    t.strictSame(await resolver.resolve('internal.test'), ['192.0.2.9'])
    // The resolver repeats its first question once more while nothing answers it, also after the second server did.
    await sleep(2 * questionMs)
    const before = questions
    for (let i = 0; i < 3; i++) t.strictSame(await resolver.resolve('internal.test'), ['192.0.2.9'])
    t.equal(questions, before, 'the first server is not asked again')
    t.strictSame(await resolver.resolve('seller.test'), [known], 'which stays the first for others')
  },
)

t.test('IPv6 addresses that nobody tells are not waited for where there are IPv4 ones', async (t) => {
  const { resolver } = await start(t, {
    respond: (_name, type) => (type === 'A' ? [known] : 'silence'),
    timeoutMs: longMs,
  })
  t.strictSame(await atOnce(resolver.resolve('half.test')), [known])
})
