import t, { type Test } from 'tap'
import { buildGeneration, type PluginEntry } from '../core/kernel/generation.ts'
import type { AnyGatewayPlugin, RouteHooks, RouteInfo } from '../core/plugin/gateway.ts'
import { silentLog } from '../core/ports/log.ts'
import { startGateway } from './helpers/gateway.ts'
import { pluginOf } from './helpers/plugins.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

/** A plugin written in JavaScript, without a compiler to stop mistakes. */
const odd = (more: object, name = 'odd') =>
  ({ ...pluginOf(name, {}), ...more }) as unknown as AnyGatewayPlugin
const routed = (route: (info: RouteInfo) => unknown, more: object = {}) =>
  odd({ setup: () => ({ route }), ...more })
const entry = (plugin: AnyGatewayPlugin, when?: PluginEntry['when']): PluginEntry => ({
  ...{ plugin, options: {}, when },
})

const reader = (hooks: RouteHooks = { guard: () => undefined }) =>
  odd({ setup: () => ({ route: () => hooks }), slots: { guard: { reads: ['payment'] } } }, 'reader')

/** Why a configuration of these plugins does not start. */
async function refuser(t: Test): Promise<(...entries: PluginEntry[]) => Promise<string>> {
  const { ports } = await startGateway(t)
  return async (...entries) => {
    const error = await buildGeneration(entries, ports).then(
      () => undefined,
      (error: Error) => error,
    )
    t.equal(error?.name, 'GenerationError', 'it does not start')
    return error?.message ?? ''
  }
}

t.test('a phase that there is none of stops the start, with the one that was meant', async (t) => {
  const refusal = await refuser(t)
  const misspelt = await refusal(entry(routed(() => ({ gaurd: () => undefined }))))
  t.match(misspelt, /Plugin odd has a hook for gaurd, .*Did you mean guard\?/)
  const declared = await refusal(entry(odd({ slots: { forwrad: { reads: ['payment'] } } })))
  t.match(declared, /Plugin odd declares slots of phase forwrad, .*Did you mean forward\?/)
  const slot = await refusal(entry(odd({ slots: { guard: { reads: ['paymnet'] } } })))
  t.match(slot, /Plugin odd names slot paymnet, .*Did you mean payment\?/)
  const foreign = await refusal(entry(routed(() => ({ identify: () => undefined }))))
  t.match(foreign, /hook for identify, which is not a phase of the gateway: guard, pay/)
  const inherited = await refusal(entry(routed(() => ({ constructor: () => undefined }))))
  t.match(inherited, /hook for constructor/)
})

t.test('what no plugin can mean stops the start in words, never by a call that breaks', async (t) => {
  const refusal = await refuser(t)
  const cases: [object, RegExp][] = [
    [routed(() => Promise.resolve({})), /route\(\) .* promise/],
    [routed(() => 'guard'), /route\(\) .* got string/],
    [routed(() => ({ guard: 'no' })), /hook for guard .* got string/],
    [routed(() => ({ guard: [] })), /hook for guard .* got object/],
    [odd({ setup: () => null }), /setup\(\) .* got null/],
    [odd({ setup: () => ({}) }), /setup\(\) .* route/],
    [odd({ slots: { guard: 'payment' } }), /slots of phase guard/],
    [odd({ slots: { guard: { reads: 'payment' } } }), /reads .* list/],
    [odd({ slots: { guard: { read: ['payment'] } } }), /read.* Did you mean reads\?/],
    [odd({ slots: null, ownSlots: { 'other/x': 1 } }), /other\/x .* odd\//],
    [
      odd({ ownSlots: { 'odd/x': 1 }, slots: { guard: { writes: ['other/x'] } } }),
      /writes other\/x, .* another plugin/,
    ],
  ]
  for (const [plugin, message] of cases) t.match(await refusal(entry(plugin as AnyGatewayPlugin)), message)
})

t.test('what every call would share is no slot to begin with', async (t) => {
  const refusal = await refuser(t)
  for (const value of [[], {}, new Map(), () => 1]) {
    const message = await refusal(entry(odd({ ownSlots: { 'odd/x': value } })))
    t.match(message, /value of odd\/x to .* all calls would share\. Start with null/)
  }
})

t.test('two plugins of one name stop the start, and one plugin listed twice does not', async (t) => {
  const refusal = await refuser(t)
  t.match(await refusal(entry(odd({})), entry(odd({}))), /Two plugins are called odd/)
  const { ports } = await startGateway(t)
  const same = odd({})
  await (await buildGeneration([entry(same), entry(same)], ports)).closePlugins()
})

t.test('what would claim, charge or call the seller twice stops the start', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const whole = ['x402', 'replay-guard', 'upstream', 'purchase-record'].map((use) => ({ use }))
  const slots = {
    x402: 'payment',
    'replay-guard': 'claim',
    upstream: 'response',
    'purchase-record': 'purchase',
  }
  for (const [use, slot] of Object.entries(slots)) {
    const message = new RegExp(`${use} writes ${slot} in phase .*, and so does ${use}`)
    await t.rejects(gateway.build([...whole, { use }]), { name: 'GenerationError', message }, use)
  }
  const apart = ['alice/*', 'bob/*'].map((links) => ({ use: 'x402', when: { links: [links] } }))
  const generation = await gateway.build([
    ...apart,
    ...['replay-guard', 'upstream', 'purchase-record'].map((use) => ({
      ...{ use, when: { links: ['alice/*', 'bob/*'] } },
    })),
  ])
  await generation.closePlugins()
})

t.test('a place at the seller is taken behind the claim only', async (t) => {
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })
  const early = ['x402', 'upstream', 'replay-guard', 'purchase-record'].map((use) => ({ use }))
  await t.rejects(gateway.build(early), {
    message: /Plugin upstream reads claim in phase claim.*Put replay-guard before upstream/,
  })
  const freeOnly = await gateway.build([{ use: 'upstream' }])
  await freeOnly.closePlugins()
})

t.test('a plugin that says null for nothing has nothing to do', async (t) => {
  const { ports } = await startGateway(t)
  const nothing = [
    routed(() => null),
    routed(() => ({ guard: null, deliver: undefined, dispose: null })),
    odd({ slots: null }),
    odd({ slots: { guard: null, pay: {} } }),
  ]
  const generation = await buildGeneration(
    nothing.map((plugin, i) => entry({ ...plugin, name: `odd${i}` })),
    ports,
  )
  await generation.closePlugins()
})

t.test('a plugin behind a pattern of links is checked as it would run there', async (t) => {
  const refusal = await refuser(t)
  const message = await refusal(entry(reader(), { links: ['alice/*'] }))
  t.match(message, /reads payment in phase guard, but no plugin before it writes payment/)
  t.match(message, /alice\/\*/, 'and whose links')
  const odd = ['*', 'ali*', '*/b', '(any)/free', 'a*c/*b*']
  for (const pattern of odd) t.match(await refusal(entry(reader(), { links: [pattern] })), /reads payment/)
})

/** A gateway whose plugin is wrong for one link only, which no sample shows. */
async function startWrong(t: Test, hooks: (info: RouteInfo) => unknown, more: object = {}) {
  const problems: object[] = []
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    log: { ...silentLog, error: (fields: object) => void problems.push(fields) },
    extraPlugins: [routed((info) => (info.link.slug === 'wrong' ? hooks(info) : undefined), more)],
    plugins: ['odd', 'x402', 'replay-guard', 'upstream', 'purchase-record'].map((use) => ({ use })),
  })
  const seller = await startSeller(t, 'hello')
  const wrong = await gateway.addLink({ slug: 'wrong', url: seller.url, price: '0.10' })
  const right = await gateway.addLink({ slug: 'right', url: seller.url })
  return { gateway, problems, wrong, right, seller, settler }
}

t.test('a link whose program does not hold is refused, told of once, and costs nothing', async (t) => {
  const kinds: [string, (info: RouteInfo) => unknown, object][] = [
    [
      'reads too early',
      () => ({ guard: (x: never) => (x as { payment: object }).payment }),
      {
        slots: { guard: { reads: ['payment'] } },
      },
    ],
    ['misspells a phase', () => ({ gaurd: () => undefined }), {}],
    [
      'can not route',
      () => {
        throw new Error('not for this link')
      },
      {},
    ],
  ]
  for (const [name, hooks, more] of kinds) {
    const { problems, wrong, right, seller, settler } = await startWrong(t, hooks, more)
    for (let i = 0; i < 3; i++) {
      const headers = { 'payment-signature': scriptedPayment('n', '100000') }
      const response = await fetch(wrong.url, { headers })
      t.equal(response.status, 503, name)
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      t.equal(error.code, 'link_misconfigured')
      t.match(error.message, /not charged/)
      t.ok(response.headers.get('payment-response'), 'who came with a payment hears that it was refused')
    }
    t.equal(problems.length, 1, `${name}: one entry in the log`)
    t.match(JSON.stringify(problems), /odd|not for this link/)
    t.equal((await fetch(right.url)).status, 200, 'the others run')
    t.strictSame([settler.transfers, seller.requests.length], [[], 1])
  }
})
