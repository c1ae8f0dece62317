import { readFileSync } from 'node:fs'
import { verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore, plainTexts } from '../../test/helpers/web/dashboard/fullStore.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

if (chromium !== undefined)
  t.test('a seller downloads the signed receipt of a delivered purchase, and of no other', async (t) => {
    const site = await startSite(t)
    site.clock.nowMs = Date.now()
    const seller = sellersWallet()
    const store = await fillStore(site, seller.wallet, plainTexts)
    const viewport = { width: 360, height: 800 }
    const { page, problems } = await openDashboard(t, chromium, `${site.url}/dashboard`, seller.inBrowser, {
      viewport,
    })
    const id = await page.evaluate(async () => {
      const { data } = await (await fetch('/api/v1/purchases?limit=100')).json()
      return data.purchases.find(({ status }: { status: string }) => status === 'delivered').id as string
    })
    const link = page.getByRole('link', { name: 'Download the signed receipt' })
    await page.goto(`${site.url}/dashboard/purchases/${id}`)
    const [download] = await Promise.all([page.waitForEvent('download'), link.click()])
    t.equal(download.suggestedFilename(), `receipt-${id}.json`)
    const { data } = JSON.parse(readFileSync(await download.path(), 'utf8'))
    t.match((await verifyReceiptSignatureEIP712(data)).signer, /^0x/)
    t.ok(await fitsItsWidth(page))
    t.strictSame(await seriousFindings(page), [])
    await page.goto(`${site.url}/dashboard/purchases/${store.refundDue}`)
    await page.getByText('Timeline').waitFor()
    t.equal(await link.count(), 0)
    t.strictSame(problems, [])
  })
