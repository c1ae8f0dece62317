import t from 'tap'
import { createScriptedSettler, testNetwork, testPayTo } from '../../test/helpers/settler.ts'
import { builtInAssets } from '../domain/asset.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Settler } from '../ports/chains/settler.ts'
import { createChallenges, RecentChallenges } from './challenge.ts'
import { offersOf } from './offers.ts'

const assets = builtInAssets.filter(({ network }) => network === testNetwork)
const link = { price: '0.10', payout: { base: testPayTo, solana: null } }

const chainsOf = (settler: Settler): Chains => ({
  assets,
  settlers: [settler],
  settler: (network, scheme = 'exact') =>
    network === settler.network && settler.schemes.some((one) => one === scheme) ? settler : undefined,
})

t.test(
  'a link is offered by the scheme that its price needs, on networks that settle the scheme',
  async (t) => {
    const exact = createScriptedSettler()
    const both: Settler = {
      ...exact,
      schemes: ['exact', 'upto'],
      offerExtra: (_payTo, scheme) => (scheme === 'upto' ? { facilitatorAddress: '0xfa' } : {}),
    }
    const entries = (settler: Settler, scheme?: 'exact' | 'upto') =>
      offersOf({ ...link, ...(scheme && { scheme }) }, chainsOf(settler), 60).map(({ terms }) => terms)
    t.match(entries(both), [{ scheme: 'exact', amount: '100000', extra: { facilitatorAddress: undefined } }])
    t.match(entries(both, 'upto'), [
      { scheme: 'upto', amount: '100000', extra: { name: 'USDC', version: '2', facilitatorAddress: '0xfa' } },
    ])
    t.strictSame(entries(exact, 'upto'), [])
  },
)

t.test('a token without EIP-3009 is offered by Permit2, and not to clients of version 1', async (t) => {
  const settler = createScriptedSettler()
  const permit2 = assets.map((asset) => ({ ...asset, transferMethod: 'permit2' as const }))
  const offers = offersOf(link, { ...chainsOf(settler), assets: permit2 }, 60)
  t.match(offers, [{ terms: { scheme: 'exact', extra: { assetTransferMethod: 'permit2' } } }])
  const { v1 } = createChallenges(link, offers, {
    describe: () => ({ resource: { url: 'https://a.example/l', description: '', mimeType: '' } }),
    legacyBody: false,
    acceptV1: true,
    recent: new RecentChallenges(),
  })
  t.match(JSON.parse(String(v1.body)), { x402Version: 1, accepts: [] })
})
