import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createChanges } from '../adapters/memory/changes.ts'
import { buildGeneration } from '../core/kernel/generation.ts'
import { prototypeLinks } from '../core/kernel/prototypeLinks.ts'
import type { GatewayPorts } from '../core/plugin/ports.ts'
import { systemClock } from '../core/ports/clock.ts'
import { silentLog } from '../core/ports/log.ts'
import { pluginOf } from '../test/helpers/plugins.ts'
import { LiveGeneration } from './liveGeneration.ts'

/** A live generation of free links, any address of which has one. @returns what is told of its programs, in order */
async function live() {
  const told: string[] = []
  const ports = { log: silentLog } as GatewayPorts
  const generationOf = (name: string) => {
    const instance = {
      route: ({ link: { username, slug } }: { link: { username: string; slug: string } }) => ({
        guard: () => ({ status: 204, headers: [], body: null }),
        dispose: () => void told.push(`${name} ${username}/${slug}`),
      }),
      close: () => void told.push(`${name} closed`),
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
  // The prototypes that every generation is checked with.
  told.length = 0
  return { live: new LiveGeneration(first, links, changes, systemClock), generationOf, changes, told }
}

t.test(
  'a reload gives up the programs of many links between calls, and closes the plugins after the last',
  async (t) => {
    const { live: calls, generationOf, told } = await live()
    for (let i = 0; i < 1_000; i++) await calls.current.table.ask(`ann/l${i}`)
    const second = await generationOf('second')
    told.length = 0
    const { retired } = await calls.swap(second)
    await nextTurn()
    t.ok(told.length < 1_000, `${told.length} are given up when the next call has its turn`)
    await retired
    t.equal(new Set(told).size, 1_001)
    t.equal(told.at(-1), 'first closed')
    await calls.close()
  },
)

t.test('what changes of a store drops the programs of its links, and no others', async (t) => {
  const { live: calls, changes, told } = await live()
  for (const key of ['ann/a', 'ann/b', 'anna/a', 'ben/a']) await calls.current.table.ask(key)
  changes.publish({ kind: 'link', username: 'ann', slug: 'b' })
  changes.publish({ kind: 'link', username: 'ann', slug: 'c' })
  t.strictSame(told.splice(0), ['first ann/b'])
  await calls.current.table.ask('ann/b')
  changes.publish({ kind: 'store', username: 'ann' })
  t.strictSame(told.splice(0).sort(), ['first ann/a', 'first ann/b'])
  changes.publish({ kind: 'store', username: 'ann' })
  t.strictSame(told, [])
  t.strictSame(
    ['ann/a', 'ann/b', 'anna/a', 'ben/a'].map((key) => calls.current.table.lookup(key) !== undefined),
    [false, false, true, true],
  )
  await calls.close()
})
