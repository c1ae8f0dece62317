import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler } from '../../test/helpers/settler.ts'

const whole = ['x402', 'replay-guard', 'upstream', 'purchase-record']
const uses = (names: readonly string[]) => names.map((use) => ({ use }))

t.test(
  'a list of plugins that would charge without recording, or serve unpaid, does not start',
  async (t) => {
    const { build } = await startGateway(t, { settlers: [createScriptedSettler()] })
    for (const left of whole) {
      const names = whole.filter((name) => name !== left)
      await t.rejects(build(uses(names)), { name: 'GenerationError' }, `without ${left}`)
    }
    const generation = await build(uses(whole))
    await generation.closePlugins()
  },
)

t.test('a gateway of free links only refuses paid links instead of giving them away', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { addLink } = await startGateway(t, { plugins: uses(['upstream']) })
  const free = await addLink({ slug: 'free', url: seller.url })
  t.equal((await fetch(free.url)).status, 200)
  for (const settle of ['after', 'before'] as const) {
    const paid = await addLink({ slug: `paid-${settle}`, url: seller.url, price: '0.10', settle })
    const response = await fetch(paid.url)
    t.equal(response.status, 503, settle)
    t.match(JSON.parse(await response.text()), { error: { code: 'settlement_unavailable' } })
  }
  t.equal(seller.requests.length, 1, 'only the free call reached the seller')
})

t.test('a call that no plugin answers is a 500, not a hang', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { addLink } = await startGateway(t, { plugins: uses(['rate-limit']) })
  const link = await addLink({ slug: 'free', url: seller.url })
  t.equal((await fetch(link.url)).status, 500)
})

t.test('a gateway without the check of sign-ins refuses links with access', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { addLink } = await startGateway(t, { plugins: uses(['upstream']) })
  const free = await addLink({ slug: 'free', url: seller.url })
  t.equal((await fetch(free.url)).status, 200)
  const link = await addLink({ slug: 'wallets', url: seller.url, access: 'signed-in' })
  const response = await fetch(link.url)
  t.equal(response.status, 503)
  t.match(JSON.parse(await response.text()), { error: { code: 'link_misconfigured' } })
  t.equal(seller.requests.length, 1)
})
