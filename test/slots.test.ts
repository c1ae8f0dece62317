import t, { type Test } from 'tap'
import { buildGeneration } from '../core/kernel/generation.ts'
import { prototypeLinks } from '../core/kernel/prototypeLinks.ts'
import { run } from '../core/kernel/run.ts'
import {
  type AnyGatewayPlugin,
  type Exchange,
  gatewayPlugin,
  handled,
  type RouteHooks,
} from '../core/plugin/gateway.ts'
import type { ForeignSlot, OwnSlot } from '../core/plugin/slots.ts'
import { startGateway } from './helpers/gateway.ts'
import { callThrough, MemoryTransport } from './helpers/memoryTransport.ts'
import { noOptions, pluginOf } from './helpers/plugins.ts'

const free = prototypeLinks[0]!
const call = () => callThrough(new MemoryTransport(), free)

/** Runs one call through these plugins and tells what they did with slots against their word. */
async function misuse(t: Test, plugin: Partial<AnyGatewayPlugin>, hooks: RouteHooks): Promise<string[]> {
  const { ports } = await startGateway(t)
  const lines: string[] = []
  const writer = {
    ...pluginOf('writer', {
      pay: (x) => void (x.payment = {} as never),
      claim: (x) => void (x.claim = {} as never),
    }),
    slots: { pay: { writes: ['payment'] }, claim: { writes: ['claim'] } },
  } as AnyGatewayPlugin
  const entries = [writer, { ...pluginOf('odd', hooks), ...plugin } as AnyGatewayPlugin]
  const generation = await buildGeneration(
    entries.map((plugin) => ({ plugin, options: {}, when: { paid: false } })),
    ports,
    { onSlotMisuse: ({ message }) => void lines.push(message) },
  )
  const x = call()
  const program = generation.compile(free)
  const { hooks: compiled, afterResponse } = program.shape
  x.pipeline = program
  try {
    await run(compiled, x)
  } catch {}
  for (const { hook } of afterResponse) {
    try {
      hook(x)
    } catch {}
  }
  await generation.retire()
  return lines
}

t.test('in tests, a hook that uses a slot which its plugin did not declare throws', async (t) => {
  const reads: RouteHooks = { pay: (x) => void x.payment }
  t.strictSame(await misuse(t, {}, reads), [
    'Plugin odd read slot payment in phase pay without declaring it.',
  ])
  const late: RouteHooks = {
    pay: async (x) => {
      await null
      x.payment = null
    },
  }
  t.strictSame(await misuse(t, { slots: { pay: { reads: ['payment'] } } }, late), [
    'Plugin odd wrote slot payment in phase pay without declaring it.',
  ])
  const elsewhere: RouteHooks = { claim: (x) => void x.payment }
  t.match(await misuse(t, { slots: { pay: { reads: ['payment'] } } }, elsewhere), [/in phase claim/])
  const afterwards: RouteHooks = { deliver: ({ claim }) => void claim, log: ({ claim }) => void claim }
  t.match(await misuse(t, { slots: { deliver: { reads: ['claim'] } } }, afterwards), [/in phase log/])
  const unused: RouteHooks = { guard: (x) => x.addHeader('a', x.header('b') ?? '') }
  t.strictSame(await misuse(t, {}, unused), [], 'what is no slot is free to use')
  const declared: RouteHooks = {
    verify: (x) => void (x.settlement ??= x.claim as never),
    log: (x) => void x.payment,
  }
  const slots = {
    verify: { reads: ['claim'], mayWrite: ['settlement'] },
    log: { mayRead: ['payment'] },
  } as const
  t.strictSame(await misuse(t, { slots }, declared), [])
})

t.test('a plugin sees one call as one and the same in all phases', async (t) => {
  const seen: Exchange[] = []
  const keep = (x: Exchange) => void seen.push(x)
  await misuse(t, {}, { guard: keep, forward: keep, deliver: keep, log: keep })
  t.equal(seen.length, 4)
  t.equal(new Set(seen).size, 1)
})

/** A plugin with a slot, and one that reads it. */
function countingPlugins() {
  const found: unknown[] = []
  let counter: OwnSlot<number> | undefined
  const counting = gatewayPlugin({
    ...{ name: 'counting', api: 1, options: noOptions, needs: [] },
    ownSlots: { 'counting/guards': 0, 'counting/names': null as string[] | null },
    slots: { guard: { writes: ['counting/guards'] } },
    setup(_, { slot }) {
      const guards = slot('counting/guards')
      // @ts-expect-error its type is that of what it begins with
      const wrong: OwnSlot<string> = guards
      counter = wrong as unknown as OwnSlot<number>
      return { route: () => ({ guard: (x) => guards.set(x, guards.get(x) + 1) }) }
    },
  })
  const reading = gatewayPlugin({
    ...{ name: 'reading', api: 1, options: noOptions, needs: [] },
    slots: { forward: { reads: ['counting/guards'], mayRead: ['absent/slot'] } },
    setup(_, { slot }) {
      const guards: ForeignSlot<number> = slot<number>('counting/guards')
      const absent = slot('absent/slot')
      return {
        route: () => ({
          forward: (x) => {
            found.push(guards.get(x), absent.get(x))
            return handled
          },
        }),
      }
    },
  })
  return { counting, reading, found, counter: () => counter! }
}

t.test("a slot of a plugin's own holds one call's value, and others read it by its name", async (t) => {
  const { ports } = await startGateway(t)
  for (const options of [{}, { onSlotMisuse: (error: Error) => t.fail(error.message) }]) {
    const { counting, reading, found, counter } = countingPlugins()
    const entries = [counting, counting, reading] as AnyGatewayPlugin[]
    const generation = await buildGeneration(
      entries.map((plugin) => ({ plugin, options: {} })),
      ports,
      options,
    )
    const program = generation.compile(free)
    const { hooks } = program.shape
    const [first, second] = [call(), call()]
    first.pipeline = second.pipeline = program
    t.equal(first.own, null, 'a call has room for them once one is written')
    run(hooks, first)
    run(hooks, second)
    t.strictSame(found, [2, undefined, 2, undefined], 'listed twice, they share it; calls do not')
    t.equal(first.own?.length, 2)
    t.strictSame(Object.keys(first), Object.keys(call()), 'and every call has one shape')
    if (!('onSlotMisuse' in options)) t.equal(counter().get(call()), 0)
    await generation.retire()
  }
})

t.test("what reads a plugin's slot does not start without that plugin, or before it", async (t) => {
  const { ports } = await startGateway(t)
  const { counting, reading } = countingPlugins()
  const build = (...plugins: unknown[]) =>
    buildGeneration(
      plugins.map((plugin) => ({ plugin: plugin as AnyGatewayPlugin, options: {} })),
      ports,
    )
  await t.rejects(build(reading), {
    message: /Plugin reading reads counting\/guards in phase forward, but no plugin before it writes/,
  })
  const early = { ...reading, name: 'early', slots: { guard: { reads: ['counting/guards'] } } }
  const hook = { setup: () => ({ route: () => ({ guard: () => undefined }) }) }
  await t.rejects(build({ ...early, ...hook }, counting), { message: /Put counting before early/ })
  const nosy = { ...reading, slots: {} }
  await t.rejects(build(counting, nosy), {
    message: /reading failed its setup: .* counting\/guards, which it has not declared/,
  })
})
