import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { createStore } from '../../cli/runtime/createStore.ts'
import { sellerOf } from '../helpers/sellerOf.ts'
import { type Child, startGateway } from './helpers/child.ts'
import { eventually } from './helpers/eventually.ts'

/** Five minutes pass in a second there: five failed probes in as many minutes take five seconds. */
const fastClock = `data:text/javascript,${encodeURIComponent(`
  const real = Date.now, began = real()
  Date.now = () => began + (real() - began) * 300`)}`

const unprobed = { use: 'health', with: { probe: false, confirmMs: 200 } }
const probing = { use: 'health', with: { probeIntervalMs: 1_000, probeTimeoutMs: 900 } }

/** Two gateway processes in front of a seller that can be broken, with free links at three of its paths. */
async function startFleet(t: Test, health: object, env: Record<string, string> = {}, workers = 2) {
  const mood = { status: 200 }
  const probes: { path: string; atMs: number }[] = []
  const seller = await sellerOf(t, (req, res) => {
    if (req.headers['user-agent'] === 'tollgate-health-check')
      probes.push({ path: req.url!, atMs: performance.now() })
    req.resume()
    res.writeHead(mood.status).end('{}')
  })
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-fleet-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const file = join(dir, 'tollgate.yaml')
  const write = (entry: object) =>
    writeFileSync(
      file,
      stringify({
        publicUrl: 'http://gateway.test',
        gateway: { port: 0, workers, drainTimeoutMs: 1_000 },
        admin: { port: 0, limits: { keyPerMinute: 10_000, keyPerHour: 10_000 } },
        egress: { allowPrivateCidrs: ['127.0.0.0/8'] },
        log: { level: 'info', format: 'json' },
        plugins: [entry, { use: 'upstream' }, { use: 'metrics' }],
      }),
    )
  write(health)
  const { apiKey } = await createStore(file, {}, { username: 'alice' })
  const fleet = await startGateway(t, { file }, env)
  const { url, admin } = JSON.parse(fleet.stderr().match(/.*tollgate is running.*/)![0])
  const api = async (method: string, path: string, body?: object) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await fetch(`${url}/api/v1/links${path}`, { method, headers, ...sent })
    return { status: response.status, ...((await response.json()) as { data: Record<string, unknown> }) }
  }
  const links: { id: string; slug: string }[] = []
  for (const slug of ['one', 'two', 'three']) {
    links.push(
      (await api('POST', '', { title: slug, slug, url: `${seller.url}/${slug}`, price: '0' })).data as {
        id: string
        slug: string
      },
    )
  }
  // Probed once when they were saved.
  probes.length = 0
  const call = async (slug: string) => {
    const response = await fetch(`${url}/api/link/alice/${slug}`, { headers: { connection: 'close' } })
    await response.arrayBuffer()
    return response.status
  }
  return {
    ...{ mood, probes, fleet, admin, api, links, file, rewrite: write },
    call,
    /** Waits until every process gives this answer. */
    allAnswer: (slug: string, status: number) =>
      eventually(async () => {
        // A connection of its own for each, so that the processes take turns.
        const statuses = await Promise.all(Array.from({ length: 8 }, () => call(slug)))
        return statuses.every((one) => one === status) || undefined
      }),
    isSuspended: async ({ id }: { id: string }) => (await api('GET', `/${id}`)).data['suspension'] !== null,
  }
}

/** The calls that each process answered. */
async function callsByProcess(admin: string): Promise<number[]> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return [1, 2].map((worker) => {
    const samples =
      text.match(new RegExp(`^tollgate_calls_total\\{process="worker-${worker}".*$`, 'gm')) ?? []
    return samples.reduce((sum, sample) => sum + Number(sample.split(' ').at(-1)), 0)
  })
}

async function workersOf({ pid }: Child): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.trim().split(' ').map(Number)
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

t.test('a seller that fails is suspended by the calls of all processes, in all of them', async (t) => {
  const { mood, call, links, admin, isSuspended, allAnswer, fleet } = await startFleet(t, unprobed)
  // The gateway is up with the first of its processes.
  const before = await eventually(async () => {
    await call('two')
    const counts = await callsByProcess(admin)
    return Math.min(...counts) > 0 ? counts : undefined
  })
  mood.status = 500
  for (let i = 0; i < 20; i++) t.equal(await call('one'), 500)
  const counts = (await callsByProcess(admin)).map((count, i) => count - before[i]!)
  t.equal(counts[0]! + counts[1]!, 20)
  t.ok(Math.max(...counts) < 20, `${counts}: too few in each of them`)
  await allAnswer('one', 503)
  t.equal(await call('two'), 500, 'its neighbour is not')

  await t.test('those of a process that was killed count, and so do those of its successor', async (t) => {
    const [killed] = await workersOf(fleet)
    for (let i = 0; i < 18; i++) t.equal(await call('three'), 500)
    t.notOk(await isSuspended(links[2]!))
    process.kill(killed!, 'SIGKILL')
    const successor = await eventually(async () => {
      const now = await workersOf(fleet)
      return now.length === 2 && !now.includes(killed!) ? now : undefined
    })
    t.equal(successor.length, 2)
    // Too few to suspend it by themselves; what the killed one had not told yet is lost.
    let more = 0
    await eventually(async () => {
      if (more < 19 && (await call('three').catch(() => 0)) === 500) more++
      return (await isSuspended(links[2]!)) || undefined
    })
    await allAnswer('three', 503)
  })

  await t.test('one that hangs is ended with the others', async (t) => {
    const all = await workersOf(fleet)
    process.kill(all[0]!, 'SIGSTOP')
    t.teardown(() => isThere(all[0]!) && process.kill(all[0]!, 'SIGKILL'))
    fleet.signal('SIGTERM')
    t.match(await fleet.exited, { code: 0 })
    t.strictSame(all.filter(isThere), [])
  })
})

t.test('one process asks each API once a round, and a silent one is paused everywhere', async (t) => {
  const { mood, probes, call, api, links, fleet, isSuspended, allAnswer, rewrite } = await startFleet(
    t,
    unprobed,
    { NODE_OPTIONS: `--import=${fastClock}` },
  )
  const count = (path: string) => probes.filter((probe) => probe.path === path).length
  const uneven: string[] = []
  t.strictSame(probes, [], 'none until the configuration asks for them')
  rewrite(probing)
  await fleet.waitForOutput('configuration reloaded')
  await eventually(async () => {
    const counts = ['/one', '/two', '/three'].map(count)
    // One that has not answered yet is left out of a turn.
    if (Math.max(...counts) - Math.min(...counts) > 2) uneven.push(counts.join())
    return Math.min(...counts) >= 2 || undefined
  })
  t.strictSame(uneven, [], 'as often as its neighbours, at any time')
  const { data: health } = await api('GET', `/${links[0]!.id}/health`)
  t.ok(JSON.stringify(health).includes('The response has status 200'), 'it is in the history')

  mood.status = 500
  for (const link of links) await eventually(async () => (await isSuspended(link)) || undefined)
  await allAnswer('one', 503)

  mood.status = 200
  await eventually(async () => (await api('POST', `/${links[0]!.id}/re-enable`)).status === 200 || undefined)
  await allAnswer('one', 200)
  t.equal(await call('two'), 503, 'the others stay as they are')
})

t.test('of two gateways on one database one asks, and the other one when that is killed', async (t) => {
  const { probes, fleet, file } = await startFleet(t, probing, {}, 1)
  const second = await startGateway(t, { file }, {})
  const count = (path: string) => probes.filter((probe) => probe.path === path).length
  const next = async (more: number) => {
    const before = count('/one')
    await eventually(async () => count('/one') >= before + more || undefined)
  }
  await next(2)
  probes.length = 0
  for (const path of ['/one', '/two', '/three']) {
    await eventually(async () => count(path) >= 8 || undefined)
    const times = probes.filter((probe) => probe.path === path).map(({ atMs }) => atMs)
    const gapsMs = times.slice(1).map((atMs, i) => atMs - times[i]!)
    // One that asks waits 0.9 of the interval after each answer; of two, one asks soon after the other.
    t.ok(Math.min(...gapsMs) > 300, `${path} is asked after ${gapsMs.map(Math.round).join()} ms`)
  }
  fleet.signal('SIGKILL')
  await fleet.exited
  await next(3)
  second.signal('SIGTERM')
  t.match(await second.exited, { code: 0 })
  const last = probes.length
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  t.equal(probes.length, last, 'nobody is left')
})

t.test('the calls of two gateways on one database are judged together', async (t) => {
  const { mood, fleet, file, call, links, isSuspended } = await startFleet(t, unprobed, {}, 1)
  const second = await startGateway(t, { file }, {})
  const { url } = JSON.parse(second.stderr().match(/.*tollgate is running.*/)![0])
  const callSecond = async () => {
    const response = await fetch(`${url}/api/link/alice/one`)
    await response.arrayBuffer()
    return response.status
  }
  mood.status = 500
  // Too few at each of them.
  for (let i = 0; i < 10; i++) t.strictSame([await call('one'), await callSecond()], [500, 500])
  await eventually(async () => (await isSuspended(links[0]!)) || undefined)
  await eventually(async () => ((await call('one')) === 503 && (await callSecond()) === 503) || undefined)
  fleet.signal('SIGKILL')
  await fleet.exited
  // The other one judges from now on.
  const callThree = async () => (await fetch(`${url}/api/link/alice/three`)).status
  await eventually(async () => (await callThree()) === 503 || undefined, 60_000)
})
