import type { Test } from 'tap'
import type { PurchaseStatus } from '../../core/domain/purchase.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { SignInNonces, Stores } from '../../core/ports/store/stores.ts'
import {
  change,
  type LedgerUnderTest,
  type Sale,
  sampleKey,
  sampleLink,
  sampleStore,
  sell,
  startMs,
} from './samples.ts'

export interface AccessUnderTest extends LedgerUnderTest {
  readonly links: Links
  readonly stores: Stores
  readonly nonces: SignInNonces
}

const wallet = '0xAbCdEf0000000000000000000000000000000001'
const other = '0x2222222222222222222222222222222222222222'
const everywhere = { wallet, network: null }

/** What every database keeps for links that wallets call by a signature: who has bought, and which nonces are used. */
export function accessContract(t: Test, make: (t: Test) => Promise<AccessUnderTest>): void {
  async function withLink(t: Test) {
    const under = await make(t)
    await under.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    await under.links.create(sampleLink('link-1', 'store-1', { access: { paidFor: '24h' } }))
    return under
  }

  t.test('a link keeps its access', async (t) => {
    const { links } = await withLink(t)
    t.strictSame((await links.find('link-1'))?.access, { paidFor: '24h' })
    await links.update('link-1', { access: 'signed-in' }, startMs)
    t.strictSame((await links.served('store_1', 'link-1'))?.access, 'signed-in')
    await links.update('link-1', { access: null }, startMs)
    t.strictSame((await links.find('link-1'))?.access, null)
  })

  t.test(
    'the newest purchase within the time gives access to its own wallet, link and network',
    async (t) => {
      const under = await withLink(t)
      const { purchases } = under
      t.equal(await purchases.givingAccess('link-1', everywhere, startMs), undefined)
      await sell(under, 'a', '0xa', { buyerWallet: wallet.toLowerCase() })
      await sell(under, 'b', '0xb', { buyerWallet: wallet, createdAtMs: startMs + 10 })
      t.equal(await purchases.givingAccess('link-1', everywhere, startMs), 'purchase-of-b')
      t.equal(await purchases.givingAccess('link-1', everywhere, startMs + 11), undefined)
      t.equal(await purchases.givingAccess('link-1', { wallet: other, network: null }, startMs), undefined)
      t.equal(await purchases.givingAccess('link-2', everywhere, startMs), undefined)
      const on = (network: 'eip155:84532' | 'eip155:8453') => ({ wallet, network })
      t.equal(await purchases.givingAccess('link-1', on('eip155:84532'), startMs), 'purchase-of-b')
      t.equal(await purchases.givingAccess('link-1', on('eip155:8453'), startMs), undefined)
    },
  )

  t.test('a Solana wallet is matched exactly', async (t) => {
    const under = await withLink(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
    await sell(under, 'a', 'sig', { buyerWallet: 'SoLWallet', network })
    const by = (wallet: string) => under.purchases.givingAccess('link-1', { wallet, network: null }, startMs)
    t.equal(await by('SoLWallet'), 'purchase-of-a')
    t.equal(await by('solwallet'), undefined)
  })

  for (const status of ['refund_due', 'refunded', 'reorged'] as const)
    t.test(`a purchase that is ${status} gives no access, but an older one does`, async (t) => {
      const under = await withLink(t)
      const sale = await sell(under, 'a', '0xa', { buyerWallet: wallet })
      await become(under, sale, status)
      t.equal(await under.purchases.givingAccess('link-1', everywhere, startMs), undefined)
      await sell(under, 'b', '0xb', { buyerWallet: wallet, createdAtMs: startMs - 5 })
      t.equal(await under.purchases.givingAccess('link-1', everywhere, startMs - 5), 'purchase-of-b')
    })

  t.test('a delivered purchase gives access', async (t) => {
    const under = await withLink(t)
    await become(under, await sell(under, 'a', '0xa', { buyerWallet: wallet }), 'delivered')
    t.equal(await under.purchases.givingAccess('link-1', everywhere, startMs), 'purchase-of-a')
  })

  t.test('purchases from before the link had access count once it has', async (t) => {
    const under = await make(t)
    await under.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    await under.links.create(sampleLink('link-1', 'store-1'))
    await sell(under, 'a', '0xa', { buyerWallet: wallet })
    for (let round = 0; round < 2; round++) {
      await under.links.update('link-1', { access: { paidFor: '1h' } }, startMs)
      t.equal(await under.purchases.givingAccess('link-1', everywhere, startMs), 'purchase-of-a')
      await under.links.update('link-1', { access: null }, startMs)
    }
  })

  t.test('a nonce of a sign-in is used once, however many use it at once', async (t) => {
    const { nonces, clock } = await make(t)
    const used = await Promise.all(Array.from({ length: 20 }, () => nonces.use('n1', startMs + 1_000)))
    t.equal(used.filter(Boolean).length, 1)
    t.equal(await nonces.use('n1', startMs + 1_000), false)
    t.equal(await nonces.use('n2', startMs + 1_000), true)
    clock.nowMs += 1_001
    await nonces.use('n3', clock.nowMs + 1_000)
    t.equal(
      await nonces.use('n1', clock.nowMs + 1_000),
      true,
      'it is forgotten when it can no longer be valid',
    )
  })
}

async function become(
  { ledger }: AccessUnderTest,
  { claim, row, purchase: { network } }: Sale,
  to: Exclude<PurchaseStatus, 'settled'>,
): Promise<void> {
  const refund = { network, transaction: '0xbac', paymentKeys: [] }
  const more = to === 'refunded' ? { refund } : {}
  await ledger.apply(change(claim, row, 'settled', to, { purchaseStatus: to, ...more }))
}
