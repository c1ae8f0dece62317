import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { createChanges } from '../adapters/memory/changes.ts'
import { buildGeneration } from '../core/kernel/generation.ts'
import { prototypeLinks } from '../core/kernel/prototypeLinks.ts'
import type { GatewayPorts } from '../core/plugin/ports.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
import { pluginOf } from '../test/helpers/plugins.ts'
import { createHash, LiveGeneration } from './routeTable.ts'

/** A live generation in which every address has a free link. @returns what happened to its pipelines, in order */
async function live(maxRoutes?: number, hashOf?: (key: string) => number) {
  const notified: string[] = []
  const ports = { log: silentLog } as GatewayPorts
  const generationOf = (name: string) => {
    const instance = {
      route: ({ link: { username, slug } }: { link: { username: string; slug: string } }) => ({
        guard: () => ({ status: 204, headers: [], body: null }),
        dispose: () => void notified.push(`${name} ${username}/${slug}`),
      }),
      close: () => void notified.push(`${name} closed`),
    }
    return buildGeneration(
      [{ plugin: { ...pluginOf('counted', {}), setup: () => instance }, options: {} }],
      ports,
    )
  }
  const changes = createChanges()
  const links = {
    served: async (username: string, slug: string) => ({ ...prototypeLinks[0]!, username, slug }),
    redirectOf: async () => undefined,
  }
  const first = await generationOf('first')
  // Without the prototypes that every generation is checked with.
  notified.length = 0
  return {
    live: new LiveGeneration(first, links, changes, systemClock, maxRoutes, hashOf),
    generationOf,
    changes,
    notified,
  }
}

t.test(
  'a reload gives up the programs of many links between calls, and closes the plugins after the last',
  async (t) => {
    const { live: calls, generationOf, notified } = await live()
    for (let i = 0; i < 1_000; i++) await calls.current.table.load(`ann/l${i}`)
    const second = await generationOf('second')
    notified.length = 0
    const { retired } = await calls.swap(second)
    await nextTurn()
    t.ok(notified.length < 1_000, `${notified.length} are given up when the next call has its turn`)
    await retired
    t.equal(new Set(notified).size, 1_001)
    t.equal(notified.at(-1), 'first closed')
    await calls.close()
  },
)

t.test('a reload leaves calls a turn between any two of its steps', async (t) => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  count()
  /** What was done in each turn of the event loop, by kind. */
  const done = new Map<string, number>()
  const note = (kind: string) => void done.set(`${kind} ${turn}`, (done.get(`${kind} ${turn}`) ?? 0) + 1)
  const entries = (of: string) =>
    Array.from({ length: 10 }, (_, at) => ({
      options: {},
      plugin: {
        ...pluginOf(`plugin-${at}`, {}),
        setup() {
          note(`${of} set up`)
          return {
            route: () => {
              if (at === 0) note(`${of} compiled`)
              return { guard: () => undefined, dispose: () => note(`${of} given up`) }
            },
          }
        },
      },
    }))
  const ports = { log: silentLog } as GatewayPorts
  const links = {
    served: async (username: string, slug: string) => ({ ...prototypeLinks[0]!, username, slug }),
    redirectOf: async () => undefined,
  }
  const first = await buildGeneration(entries('old'), ports)
  const calls = new LiveGeneration(first, links, createChanges(), systemClock)
  for (let i = 0; i < 500; i++) await calls.current.table.load(`ann/l${i}`)
  done.clear()
  const { retired } = await calls.swap(await buildGeneration(entries('new'), ports))
  const swappedIn = turn
  await retired
  isOver = true
  const most = (kind: string) =>
    Math.max(...[...done].filter(([key]) => key.startsWith(kind)).map(([, count]) => count))
  t.equal(most('new set up'), 1, 'plugins set up in a turn')
  t.equal(most('new compiled'), 1, 'links whose program is checked in a turn')
  t.ok(most('old given up') <= 100 * 10)
  t.notOk(done.has(`old given up ${swappedIn}`), 'nothing is given up in the turn of the swap')
  await calls.close()
})

t.test('what changes of a store drops the programs of its links, and no others', async (t) => {
  const { live: calls, changes, notified } = await live()
  for (const key of ['ann/a', 'ann/b', 'anna/a', 'ben/a']) await calls.current.table.load(key)
  changes.publish({ kind: 'link', username: 'ann', slug: 'b' })
  changes.publish({ kind: 'link', username: 'ann', slug: 'c' })
  t.strictSame(notified.splice(0), ['first ann/b'])
  await calls.current.table.load('ann/b')
  changes.publish({ kind: 'store', username: 'ann' })
  t.strictSame(notified.splice(0).sort(), ['first ann/a', 'first ann/b'])
  changes.publish({ kind: 'store', username: 'ann' })
  t.strictSame(notified, [])
  t.strictSame(
    ['ann/a', 'ann/b', 'anna/a', 'ben/a'].map((key) => calls.current.table.lookup(key) !== undefined),
    [false, false, true, true],
  )
  await calls.close()
})

t.test('of more links than are kept compiled those are given up that were called longest ago', async (t) => {
  const { live: calls, notified } = await live(3)
  const { table } = calls.current
  for (const key of ['ann/a', 'ann/b', 'ben/c']) await table.load(key)
  t.ok(table.lookup('ann/a'))
  await table.load('ben/d')
  t.strictSame(notified.splice(0), ['first ann/b'])
  await table.load('ann/b')
  t.strictSame(notified, ['first ben/c'])
  t.strictSame(
    ['ann/a', 'ann/b', 'ben/c', 'ben/d'].map((key) => table.lookup(key) !== undefined),
    [true, true, false, true],
  )
  await calls.close()
})

t.test('links that are called all the time are never given up, however many others come', async (t) => {
  const { live: calls, notified } = await live(100)
  const { table } = calls.current
  const busy = Array.from({ length: 10 }, (_, i) => `ann/busy-${i}`)
  for (const key of busy) await table.load(key)
  for (let i = 0; i < 500; i++) {
    await table.load(`ben/l${i}`)
    if (busy.some((key) => table.lookup(key) === undefined)) t.fail(`one is gone after ${i} others`)
  }
  t.equal(notified.length, 410)
  t.notOk(notified.some((what) => what.includes('busy')))
  await calls.close()
})

t.test('links whose addresses have the same hash are never taken for each other', async (t) => {
  const { live: calls, changes, notified } = await live(undefined, (key) => key.length)
  const { table } = calls.current
  const keys = ['ann/a', 'ann/b', 'ben/a', 'anna/a', 'annab/a']
  for (let i = 0; i < 100; i++) {
    const key = keys[(i * 7) % keys.length]!
    const link = table.lookup(key)?.link ?? (await table.load(key)).link!
    t.equal(`${link.username}/${link.slug}`, key)
    for (const other of keys) {
      const known = table.lookup(other)?.link
      if (known) t.equal(`${known.username}/${known.slug}`, other)
    }
  }
  changes.publish({ kind: 'store', username: 'ann' })
  t.notOk(table.lookup('ann/a'))
  t.notOk(table.lookup('ann/b'))
  t.ok(table.lookup('anna/a'))
  await table.load('ann/a')
  changes.publish({ kind: 'link', username: 'ann', slug: 'a' })
  t.notOk(table.lookup('ann/a'))
  const compiled = notified.length
  await calls.close()
  t.equal(notified.length, compiled + 2 + 1, 'each program is given up once')
})

t.test(
  'whatever is called, changed and forgotten, an address leads to its own link or is not known',
  async () => {
    const names = Array.from({ length: 700 }, (_, i) => `s${i % 7}/l${i}`)
    const at = fc.nat(names.length - 1)
    const step = fc.oneof(
      {
        weight: 8,
        arbitrary: fc.record({ kind: fc.constant('calls' as const), from: at, many: fc.nat(300) }),
      },
      fc.record({ kind: fc.constant('link' as const), of: at }),
      fc.record({ kind: fc.constant('store' as const), of: at }),
    )
    const ways = fc.record({
      places: fc.constantFrom(1, 5, 300, 2 ** 31),
      most: fc.constantFrom(2, 100, 5_000),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), ways, async (steps, { places, most }) => {
        const own = createHash()
        const hashOf = (key: string) => own(key) % places
        const { live: calls, changes, notified } = await live(most, hashOf)
        const { table } = calls.current
        const find = (key: string) => {
          const found = table.lookup(key)
          if (found === undefined || found.link === null) return undefined
          assert.equal(`${found.link.username}/${found.link.slug}`, key)
          return found
        }
        for (const one of steps) {
          if (one.kind === 'calls') {
            for (const key of names.slice(one.from, one.from + one.many)) {
              if (find(key) === undefined) await table.load(key)
              assert.ok(find(key), 'what was just called is known')
            }
            continue
          }
          notified.length = 0
          const [username, slug] = names[one.of]!.split('/') as [string, string]
          const changed =
            one.kind === 'link' ? [names[one.of]!] : names.filter((key) => key.startsWith(`${username}/`))
          const known = changed.filter((key) => find(key) !== undefined)
          changes.publish(
            one.kind === 'link' ? { kind: 'link', username, slug } : { kind: 'store', username },
          )
          for (const key of known) assert.ok(notified.includes(`first ${key}`), 'it is given up')
          assert.ok(
            changed.every((key) => find(key) === undefined),
            'what has changed is not known any more',
          )
        }
        await calls.close()
      }),
      { numRuns: 60 },
    )
  },
)
