import { base58 } from '@scure/base'
import { VersionedTransaction } from '@solana/web3.js'
import type { Browser, Page } from 'playwright-core'
import type { Test } from 'tap'
import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { loseRefund, payBack } from '../../core/payments/reconciliation.ts'
import type { RefundVerdict, TransferBack } from '../../core/ports/chains/refundProofs.ts'
import { tokenAccountOf } from '../../core/solana/tokenAccount.ts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { bring } from '../../test/helpers/rows.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore, plainTexts } from '../../test/helpers/web/dashboard/fullStore.ts'
import {
  openDashboard,
  openTransport,
  sellersWallet,
} from '../../test/helpers/web/dashboard/openDashboard.ts'
import { seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'
import { solanaTestWallet, type TestWallet } from '../../test/helpers/web/wallets/testWallets.ts'

const chromium = await startBrowser(t)
const paidWallet = '0x00000000000000000000000000000000000000a1'
const txHash = `0x${'5'.repeat(64)}`

interface Sent {
  readonly from: string
  readonly to: string
  readonly data: string
}

/**
 * A seller whose wallet can switch to the account that was paid, and sends any transaction it is asked for.
 */
async function shop(t: Test) {
  const verdicts: RefundVerdict[] = []
  const proved: TransferBack[] = []
  const balance = { atomic: 5_000n }
  const site = await startSite(t, {
    assets: [...builtInAssets],
    payers: {
      read: async () => ({
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
    async request(args) {
      if (args.method === 'eth_requestAccounts') return [account.address]
      if (args.method !== 'eth_sendTransaction') return seller.inBrowser.request(args)
      if (seller.inBrowser.mood.declines.has(args.method))
        throw Object.assign(new Error('User rejected the request.'), { code: 4001 })
      sent.push(args.params![0] as Sent)
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
      await page.getByText(/no wallet in this browser has that account selected/).waitFor()
      t.strictSame(sent, [], 'another account sends nothing: the API would not take it for a refund')

      account.address = paidWallet
      mood.declines.add('eth_sendTransaction')
      await button.click()
      await page.getByText(/was declined in/).waitFor()
      t.strictSame(sent, [])

      mood.declines.clear()
      verdicts.push({ status: 'unavailable', message: 'No node answers.' }, { status: 'not_found' })
      // Closed before it is confirmed: the page that is opened next finds the transfer.
      await page.route('**/refunds', (route) => route.abort())
      await button.click()
      await page.getByText(/Waiting for its confirmation/).waitFor()
      await page.reload()
      const again = page.getByRole('button', { name: 'Check the refund again' })
      await again.waitFor()
      t.strictSame(await seriousFindings(page), [])
      await page.unroute('**/refunds')
      await again.click()
      await page.getByText('The refund was recorded', { exact: true }).waitFor()
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
      const { purchaseId } = await bring(site.db.ledger, {
        state: 'refund_due',
        storeId,
        linkId: maps,
        network,
        asset,
        response: null,
        payer: buyer.address,
        payTo: paid.address,
        amountAtomic: 5_000n,
        atMs: site.clock.nowMs,
      })
      const sent: Uint8Array[] = []
      const [requests, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const onSolana: TestWallet = {
        ...paid,
        async request({ method, params }) {
          if (method !== 'signAndSendTransaction') return paid.request({ method, params: params ?? [] })
          sent.push(Buffer.from(String(params![0]), 'base64'))
          requests.resolve()
          await answer.promise
          return Buffer.alloc(64, 7).toString('base64')
        },
      }
      const { page } = await openTransport(t, browser, `${site.url}/dashboard`, [inBrowser, onSolana])
      await page.getByRole('button', { name: /Base test wallet/ }).click()
      await page.getByRole('button', { name: 'Sign out' }).first().waitFor()
      const address = `${site.url}/dashboard/purchases/${purchaseId}`
      const refund = (tab: Page) => tab.getByRole('button', { name: 'Refund 0.005 USDC' })

      const forgetful = await page.context().newPage()
      await forgetful.addInitScript("Storage.prototype.setItem = () => { throw new Error('blocked') }")
      await forgetful.goto(address)
      await refund(forgetful).click()
      await forgetful.getByText(/This browser does not let the page store anything/).waitFor()
      await forgetful.close()

      await page.goto(address)
      balance.atomic = 4_999n
      await refund(page).click()
      await page.getByText(/less than the refund/).waitFor()
      t.strictSame(sent, [])
      balance.atomic = 5_000n
      await refund(page).click()
      await requests.promise
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

  t.test('a seller whose refund left the chain is told which one before they send another', async (t) => {
    const { site, inBrowser, wallet } = await shop(t)
    const { refundDue } = await fillStore(site, wallet, plainTexts)
    const { ledger: books, purchases } = site.db
    const { page } = await openDashboard(t, browser, `${site.url}/dashboard`, inBrowser)
    const notice = page.getByText('Your refund was dropped from the chain')
    const button = page.getByRole('button', { name: /^Refund 0\.005 USDC$/ })
    const open = async () => {
      await page.goto(`${site.url}/dashboard/purchases/${refundDue}`)
      await button.waitFor()
    }
    await open()
    t.equal(await notice.count(), 0)

    const purchase = (await purchases.find(refundDue))!
    const read = async () => (await books.find(purchase.paymentKey))!
    const { network } = purchase
    const back = { network, transaction: txHash, paymentKeys: [] }
    t.ok(await books.apply(payBack(await read(), purchase, back)))
    const refund = (await purchases.refundOf(refundDue))!
    t.ok(await books.apply(loseRefund(await read(), purchase, refund, false)))
    await open()
    await notice.waitFor()
    await page.getByText(/Send a new refund only when the transaction can no longer be included/).waitFor()
    t.match(await page.content(), txHash, 'the transaction to look up')
    t.strictSame(await seriousFindings(page), [])
  })

  t.test(
    'what was bought heads its purchase; a typed transaction says at its field what is wrong',
    async (t) => {
      const { site, inBrowser, wallet } = await shop(t)
      const { refundDue } = await fillStore(site, wallet, plainTexts)
      const { page } = await openDashboard(t, browser, `${site.url}/dashboard`, inBrowser)
      await page.goto(`${site.url}/dashboard/purchases/${refundDue}`)
      await page.getByRole('heading', { name: 'Map tiles', level: 1 }).waitFor()
      await page.getByText('I sent the refund myself').click()
      await page.getByLabel('Transaction', { exact: true }).fill('0x12')
      await page.getByRole('button', { name: 'Check and record the refund' }).click()
      const alert = page.locator('#txHash-error')
      await alert.waitFor()
      t.equal(await page.getByRole('alert').count(), 1, 'once')
      t.notMatch(await alert.textContent(), /request|eip155/i)
    },
  )
}

if (chromium !== undefined) tests(chromium)
