import t from 'tap'
import type { ServedLink } from '../core/domain/link.ts'
import { buildGeneration, GenerationError } from '../core/kernel/generation.ts'
import { compileWhen } from '../core/kernel/readyPlugin.ts'
import { type AnyGatewayPlugin, gatewayPlugin } from '../core/plugin/gateway.ts'
import { startGateway } from './helpers/gateway.ts'
import { noOptions, pluginOf } from './helpers/plugins.ts'
import { createScriptedSettler } from './helpers/settler.ts'

t.test('plugins in an order that cannot work stop the start, and the message names both', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const reject = (uses: string[], message: RegExp) =>
    t.rejects(gateway.build(uses.map((use) => ({ use }))), { name: 'GenerationError', message })
  await reject(
    ['upstream', 'purchase-record', 'replay-guard'],
    /Plugin replay-guard reads payment in phase claim, but no plugin before it writes payment/,
  )
  await reject(
    ['x402', 'upstream', 'purchase-record'],
    /Plugin x402 reads claim in phase verify, but no plugin before it writes claim/,
  )
  await reject(
    ['x402', 'replay-guard', 'purchase-record'],
    /Plugin purchase-record reads response in phase respond, but no plugin before it writes response/,
  )
  await reject(['x402', 'replay-guard', 'upstream'].reverse().slice(0, 2), /reads payment/)
  const reader = gatewayPlugin({
    ...pluginOf('reader', { guard: () => undefined }),
    slots: { guard: { reads: ['payment'] } },
  } as never) as AnyGatewayPlugin
  const other = await startGateway(t, { settlers: [createScriptedSettler()], extraPlugins: [reader] })
  await t.rejects(
    other.build([
      { use: 'reader' },
      { use: 'x402' },
      { use: 'replay-guard' },
      { use: 'upstream' },
      { use: 'purchase-record' },
    ]),
    {
      message:
        /Plugin reader reads payment in phase guard, but x402 writes payment only later. Put x402 before reader/,
    },
  )
})

t.test('a plugin has the ports that it named and no others', async (t) => {
  let seen: object | undefined
  const nosy = gatewayPlugin({
    name: 'nosy',
    api: 1,
    options: noOptions,
    needs: ['clock', 'log'],
    setup(_, { ports }) {
      seen = ports
      ports.clock.now()
      // @ts-expect-error a port that was not asked for is no property of the type
      t.equal(ports.sealer, undefined)
      t.throws(() => Object.assign(ports, { clock: null }), 'and none can be put in place')
      return { route: () => undefined }
    },
  }) as AnyGatewayPlugin
  const { ports } = await startGateway(t)
  await buildGeneration([{ plugin: nosy, options: {} }], ports)
  t.strictSame(Object.keys(seen!), ['clock', 'log'])
  const greedy = { ...nosy, name: 'greedy', needs: ['toString'] } as unknown as AnyGatewayPlugin
  await t.rejects(buildGeneration([{ plugin: greedy, options: {} }], ports), {
    message: /greedy needs toString, which this gateway does not have/,
  })
})

t.test('a set-up that fails closes what was set up, and says whose it was', async (t) => {
  const closed: string[] = []
  const close = (name: string) => () => {
    closed.push(name)
    if (name === 'b') throw new Error('b can not even close')
  }
  const failing = {
    ...pluginOf('bad', {}),
    setup: () => Promise.reject(new Error('no such file')),
  } as AnyGatewayPlugin
  const { ports } = await startGateway(t)
  const entries = [
    pluginOf('a', {}, { close: close('a') }),
    pluginOf('b', {}, { close: close('b') }),
    pluginOf('c', {}, { close: close('c') }),
    failing,
  ]
  await t.rejects(
    buildGeneration(
      entries.map((plugin) => ({ plugin, options: {} })),
      ports,
    ),
    { name: 'GenerationError', message: 'Plugin bad failed its setup: no such file' },
  )
  t.strictSame(closed, ['a', 'b', 'c'])
  const unroutable = {
    ...pluginOf('unroutable', {}),
    setup: () => ({
      route: () => {
        throw new Error('not for this link')
      },
    }),
  } as unknown as AnyGatewayPlugin
  await t.rejects(buildGeneration([{ plugin: unroutable, options: {}, when: { paid: false } }], ports), {
    message: 'Plugin unroutable has no hooks for link (any)/free: not for this link',
  })
})

t.test('when: globs over seller/slug, and paid or free', async (t) => {
  const runs = (when: Parameters<typeof compileWhen>[0], name: string, isPaid = false) => {
    const [username, slug] = name.split('/')
    return compileWhen(when)({ link: { username, slug } as ServedLink, isPaid, settle: 'after' })
  }
  t.ok(runs(undefined, 'a/b'))
  t.ok(runs({}, 'a/b'))
  t.ok(runs({ links: ['a/*'] }, 'a/b'))
  t.notOk(runs({ links: ['a/*'] }, 'ab/b'))
  t.ok(runs({ links: ['x/y', '*/b'] }, 'a/b'))
  t.notOk(runs({ links: ['a/b'] }, 'a/bc'))
  t.notOk(runs({ links: ['a.b/c'] }, 'axb/c'), 'a dot is a dot')
  t.notOk(runs({ links: ['(a+)+/b'] }, 'aaaa/b'), 'a pattern is no regular expression')
  t.ok(runs({ links: [`${'*a'.repeat(20)}*`] }, `${'a'.repeat(40)}/b`))
  t.notOk(runs({ links: [] }, 'a/b'))
  t.ok(runs({ paid: true }, 'a/b', true))
  t.notOk(runs({ paid: true }, 'a/b', false))
  t.notOk(runs({ paid: false, links: ['a/*'] }, 'a/b', true))
})
t.test('GenerationError is what a refused configuration throws', (t) => {
  t.ok(new GenerationError('x') instanceof Error)
  t.end()
})
