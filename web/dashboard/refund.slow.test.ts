import { base58 } from '@scure/base'
import { VersionedTransaction } from '@solana/web3.js'
import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { RefundVerdict, TransferBack } from '../../core/ports/chains/refundProofs.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccountOf.ts'
import { newSolanaSecret } from '../../localnet/demoBuyer.ts'
import { bring } from '../../test/helpers/rows.ts'
import { startBrowser } from '../../vault/testing/browser.ts'
import { seriousFindings, startSite } from '../testing/openSite.ts'
import { solanaTestWallet, type TestWallet } from '../wallets/testing/testWallets.ts'
import { fillStore, plainTexts } from './testing/fullStore.ts'
import { openDashboard, openDoor, sellersWallet } from './testing/openDashboard.ts'

const chromium = await startBrowser(t)
const paidWallet = '0x00000000000000000000000000000000000000a1'
const txHash = `0x${'5'.repeat(64)}`

interface Sent {
  readonly from: string
  readonly to: string
  readonly data: string
}

/** A seller whose wallet can switch to the account that was paid, and sends what it is asked to. */
async function shop(t: Test) {
  const verdicts: RefundVerdict[] = []
  const proved: TransferBack[] = []
  const balance = { atomic: 5_000n }
  const site = await startSite(t, {
    assets: [...builtInAssets],
    payers: {
      look: async () => ({
        recentBlockhash: base58.encode(new Uint8Array(32)),
        balanceAtomic: balance.atomic,
      }),
    },
    refundProofs: {
      async prove(transfer) {
        proved.push(transfer)
        return verdicts.shift() ?? { status: 'proved', paymentKeys: [] }
      },
    },
  })
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  const sent: Sent[] = []
  const account = { address: seller.inBrowser.address }
  const inBrowser: TestWallet = {
    ...seller.inBrowser,
    async request(asked) {
      if (asked.method === 'eth_requestAccounts') return [account.address]
      if (asked.method !== 'eth_sendTransaction') return seller.inBrowser.request(asked)
      if (seller.inBrowser.mood.declines.has(asked.method))
        throw Object.assign(new Error('User rejected the request.'), { code: 4001 })
      sent.push(asked.params![0] as Sent)
      return txHash
    },
  }
  return {
    site,
    verdicts,
    proved,
    sent,
    account,
    balance,
    inBrowser,
    mood: seller.inBrowser.mood,
    wallet: seller.wallet,
  }
}

function tests(browser: Browser): void {
  t.test(
    'a refund is one click: the paid wallet sends exactly the amount, once, and the API books it',
    async (t) => {
      const { site, verdicts, proved, sent, account, inBrowser, mood, wallet } = await shop(t)
      const { refundDue } = await fillStore(site, wallet, plainTexts)
      const { page, problems } = await openDashboard(t, browser, `${site.url}/dashboard`, inBrowser)
      await page.goto(`${site.url}/dashboard/purchases/${refundDue}`)
      const button = page.getByRole('button', { name: /^Refund 0\.005 USDC$/ })

      await button.click()
      await page.getByText(/no wallet of this browser is on that account/).waitFor()
      t.strictSame(sent, [], 'another account sends nothing: the API would not take it for a refund')

      account.address = paidWallet
      mood.declines.add('eth_sendTransaction')
      await button.click()
      await page.getByText(/was declined in/).waitFor()
      t.strictSame(sent, [])

      mood.declines.clear()
      verdicts.push({ status: 'unavailable', message: 'No node answers.' }, { status: 'not_found' })
      // Closed before it is confirmed: what is opened next knows that the money is on its way.
      await page.route('**/refunds', (route) => route.abort())
      await button.click()
      await page.getByText(/Waiting for its confirmation/).waitFor()
      await page.reload()
      const again = page.getByRole('button', { name: 'Check the refund again' })
      await again.waitFor()
      t.strictSame(await seriousFindings(page), [])
      await page.unroute('**/refunds')
      await again.click()
      await page.getByText('The refund is booked').waitFor()
      await page.getByText('Refunded', { exact: true }).first().waitFor()

      t.equal(sent.length, 1, 'the money was sent once')
      const [{ from, to, data }] = sent as [Sent]
      const { asset, amountAtomic, to: buyer, transaction } = proved[0]!
      t.equal(from, paidWallet)
      t.equal(to, asset)
      t.equal(
        data,
        `0xa9059cbb${buyer.slice(2).padStart(64, '0')}${amountAtomic.toString(16).padStart(64, '0')}`,
      )
      t.equal(transaction, txHash)
      t.equal(proved.length, 3, 'it is asked again until the chain has it')
      t.equal(await page.getByRole('button', { name: /Refund/ }).count(), 0)
      t.equal(await page.evaluate('localStorage.length'), 0)
      t.strictSame(
        problems.filter((text) => !/ERR_FAILED|status of (422|503|409|425)/.test(text)),
        [],
      )
    },
  )

  t.test(
    'a wallet on Solana refunds by one click too, and two tabs or a forgetful browser send nothing twice',
    async (t) => {
      const { site, inBrowser, wallet, balance } = await shop(t)
      const { storeId, maps } = await fillStore(site, wallet, plainTexts)
      const [paid, buyer] = [solanaTestWallet(newSolanaSecret()), solanaTestWallet(newSolanaSecret())]
      const { network, address: asset } = builtInAssets.find(({ network }) =>
        network.startsWith('solana:EtWT'),
      )!
      const { purchaseId } = await bring(site.db.books, {
        ...{ state: 'refund_due', storeId, linkId: maps, network, asset, answer: null },
        ...{ payer: buyer.address, payTo: paid.address, amountAtomic: 5_000n, atMs: site.clock.nowMs },
      })
      const sent: Uint8Array[] = []
      const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const onSolana: TestWallet = {
        ...paid,
        async request({ method, params }) {
          if (method !== 'signAndSendTransaction') return paid.request({ method, params: params ?? [] })
          sent.push(Buffer.from(String(params![0]), 'base64'))
          asked.resolve()
          await answer.promise
          return Buffer.alloc(64, 7).toString('base64')
        },
      }
      const { page } = await openDoor(t, browser, `${site.url}/dashboard`, [inBrowser, onSolana])
      await page.getByRole('button', { name: /Base test wallet/ }).click()
      await page.getByRole('button', { name: 'Sign out' }).first().waitFor()
      const address = `${site.url}/dashboard/purchases/${purchaseId}`
      const refund = (tab: Page) => tab.getByRole('button', { name: 'Refund 0.005 USDC' })

      const forgetful = await page.context().newPage()
      await forgetful.addInitScript("Storage.prototype.setItem = () => { throw new Error('blocked') }")
      await forgetful.goto(address)
      await refund(forgetful).click()
      await forgetful.getByText(/This browser keeps nothing/).waitFor()
      await forgetful.close()

      await page.goto(address)
      balance.atomic = 4_999n
      await refund(page).click()
      await page.getByText(/less than the refund/).waitFor()
      t.strictSame(sent, [])
      balance.atomic = 5_000n
      await refund(page).click()
      await asked.promise
      const other = await page.context().newPage()
      await other.goto(address)
      await other.getByText('The transfer may have been sent').waitFor()
      t.strictSame(await seriousFindings(other), [])
      await other.getByRole('button', { name: /start over/ }).click()
      await other.getByText(/Another tab is sending this refund/).waitFor()
      t.equal(await refund(other).count(), 0, 'which may still be sent')
      answer.resolve()
      await page.getByText('Refunded', { exact: true }).first().waitFor()

      t.equal(sent.length, 1)
      const { message, signatures } = VersionedTransaction.deserialize(sent[0]!)
      t.equal(signatures.length, 1)
      t.equal(message.staticAccountKeys[0]!.toBase58(), paid.address, 'which pays the fee')
      const transfer = message.compiledInstructions[2]!
      const keys = transfer.accountKeyIndexes.map((i) => message.staticAccountKeys[i]!.toBase58())
      const token = { address: asset, program: 'token' } as const
      t.strictSame(keys, [
        tokenAccountOf(paid.address, token),
        asset,
        tokenAccountOf(buyer.address, token),
        paid.address,
      ])
      t.equal(Buffer.from(transfer.data).readBigUInt64LE(1), 5_000n)
    },
  )

  t.test(
    'what was bought heads its purchase; a typed transaction says at its field what is wrong',
    async (t) => {
      const { site, inBrowser, wallet } = await shop(t)
      const { refundDue } = await fillStore(site, wallet, plainTexts)
      const { page } = await openDashboard(t, browser, `${site.url}/dashboard`, inBrowser)
      await page.goto(`${site.url}/dashboard/purchases/${refundDue}`)
      await page.getByRole('heading', { name: 'Map tiles', level: 1 }).waitFor()
      await page.getByText('You sent it yourself').click()
      await page.getByLabel('Transaction', { exact: true }).fill('0x12')
      await page.getByRole('button', { name: 'Check and book the refund' }).click()
      const alert = page.locator('#txHash-error')
      await alert.waitFor()
      t.equal(await page.getByRole('alert').count(), 1, 'once')
      t.notMatch(await alert.textContent(), /request|eip155/i)
    },
  )
}

if (chromium !== undefined) tests(chromium)
