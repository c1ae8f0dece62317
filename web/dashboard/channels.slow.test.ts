import type { Browser } from 'playwright-core'
import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { testNetwork } from '../../test/helpers/settler.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

function tests(browser: Browser): void {
  t.test('a seller sees what channels have earned, claimed and lost', async (t) => {
    const site = await startSite(t)
    site.clock.nowMs = Date.now()
    const seller = sellersWallet()
    const { response } = await signInBrowser(site, seller.wallet, { origin: site.url })
    const storeId: string = response.body.data.store.id
    const view = `${site.url}/dashboard/purchases`
    const before = await openDashboard(t, browser, view, seller.inBrowser)
    await before.page.getByText('No purchases yet').waitFor()
    t.equal(await before.page.getByRole('region', { name: 'Payment channels' }).count(), 0)

    const { channels, channelBooks } = site.db
    const { address: token, network } = builtInAssets.find((one) => one.network === testNetwork)!
    for (const [i, byte] of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6'].entries()) {
      const id = `0x${byte.repeat(32)}`
      const account = `0x${byte.repeat(20)}`
      const parties = {
        payer: account,
        payerAuthorizer: account,
        receiver: account,
        receiverAuthorizer: account,
      }
      const state = {
        balance: 7_000_000n,
        totalClaimed: 0n,
        pendingWithdrawal: 0n,
        withdrawRequestedAtSeconds: 0,
        refundNonce: 0n,
      }
      const config = { ...parties, token: token.toLowerCase(), withdrawDelay: 900, salt: '0x00' }
      await channels.open(
        { ...state, id, network, storeId, config, charged: 0n, signed: 0n, signature: null, published: null },
        1,
      )
      await channels.charge({
        id,
        owner: 1,
        network,
        asset: token,
        storeId,
        linkId: 'one',
        amountAtomic: 1_250_000n * BigInt(i + 1),
        before: 0n,
        signed: 1_250_000n * BigInt(i + 1),
        voucherTotal: 1_250_000n * BigInt(i + 1),
        signature: `0x${'11'.repeat(65)}`,
        requestHash: '',
        identifier: null,
        response: null,
      })
      if (i < 3) await channels.update(id, { ...state, totalClaimed: 1_000_000n })
      if (i === 4) await channels.update(id, { ...state, pendingWithdrawal: 1_000_000n })
      site.clock.nowMs += 1_000
    }
    await channelBooks.book(builtInAssets, 100)
    const payout = {
      storeId,
      receiver: `0x${'a1'.repeat(20)}`,
      token: token.toLowerCase(),
      dueAtomic: 2_000_000n,
    }
    await channels.notePayouts(network, [payout])
    const { page, problems } = await openDashboard(t, browser, view, seller.inBrowser)
    const card = page.locator('section', { has: page.getByRole('heading', { name: 'Payment channels' }) })
    await card.waitFor()
    t.match(
      await card.textContent(),
      /Earned.*26\.25.*Claimed.*3.*Not paid out.*2.*Unclaimed.*22\.75.*Written off.*0\.50/s,
    )
    t.match(await card.textContent(), /Being withdrawn/)
    await card.getByRole('button', { name: 'Show more' }).click()
    await card.getByRole('row').nth(6).waitFor()
    t.equal(await card.getByRole('row').count(), 7, 'a heading and six channels')
    t.same(await seriousFindings(page), [])
    const folder = process.env['PICTURES']
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 900 })
      t.ok(await fitsItsWidth(page), `${width} px`)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        if (folder)
          await page.screenshot({ path: `${folder}/channels-${width}-${colorScheme}.png`, fullPage: true })
      }
    }
    t.same(problems, [])
  })
}

if (chromium !== undefined) tests(chromium)
