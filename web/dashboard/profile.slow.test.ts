import type { Browser } from 'playwright-core'
import t, { type Test } from 'tap'
import { images } from '../../test/helpers/admin-api/images.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore } from '../../test/helpers/web/dashboard/fullStore.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

async function openProfile(t: Test, browser: Browser) {
  const site = await startSite(t)
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  const { storeId } = await fillStore(site, seller.wallet)
  const options = { viewport: { width: 360, height: 800 } }
  const opened = await openDashboard(t, browser, `${site.url}/dashboard/profile`, seller.inBrowser, options)
  await opened.page.getByRole('heading', { name: 'Image', exact: true }).waitFor()
  const kept = async () => (await site.db.stores.find(storeId))!
  const fine = async (what: string) => {
    t.ok(await fitsItsWidth(opened.page), `${what} fits`)
    t.strictSame(await seriousFindings(opened.page), [], `${what}: what axe finds`)
  }
  return { ...opened, site, kept, fine }
}

function tests(browser: Browser): void {
  t.test('a picture is seen before it is sent, and what is none is refused in words', async (t) => {
    const { page, problems, elsewhere, kept, fine, site } = await openProfile(t, browser)
    const choose = (name: string, mimeType: string, buffer: Buffer) =>
      page.locator('#picture-file').setInputFiles({ name, mimeType, buffer })
    await choose('weather.pdf', 'application/pdf', Buffer.from('%PDF'))
    await page.getByText('weather.pdf is not a PNG, JPEG, WebP or GIF file.').waitFor()
    await choose('large.png', 'image/png', Buffer.alloc(1_500_000))
    await page.getByText(/^large\.png is 1\.4 MB, and the limit is 1 MB/).waitFor()
    await choose('broken.png', 'image/png', images.png.subarray(0, 20))
    await page.getByText(/^broken\.png can’t be shown/).waitFor()
    await fine('a refusal')
    const use = page.getByRole('button', { name: 'Use this image' })
    t.equal(await use.count(), 0)

    await choose('me.png', 'image/png', images.png)
    await use.waitFor()
    t.match(await page.locator('.avatar.big img').getAttribute('src'), /^data:image\/png/)
    t.equal((await kept()).avatarUrl, '', 'nothing is sent yet')
    await fine('a preview')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await use.waitFor({ state: 'detached' })
    await choose('me.png', 'image/png', images.png)
    await use.click()
    await page.getByText('Your image was changed').waitFor()
    const { avatarUrl } = await kept()
    t.ok(avatarUrl.startsWith(`${site.url}/avatar/`))
    t.equal(await page.locator('.avatar.big img').getAttribute('src'), avatarUrl)
    await page.getByRole('button', { name: 'Remove image' }).click()
    await page.getByText('The image was removed').waitFor()
    t.equal((await kept()).avatarUrl, '')

    await page.getByText('Use an image on the web').click()
    await page.getByLabel('Address of the image').fill('http://example.com/me.png')
    await page.getByRole('button', { name: 'Save address' }).click()
    await page
      .locator('#avatarUrl-error')
      .getByText(/https:/)
      .waitFor()
    await page.getByLabel('Address of the image').fill('https://example.com/me.png')
    await page.getByRole('button', { name: 'Save address' }).click()
    await page.getByText('Shown from https://example.com/me.png').waitFor()
    t.strictSame([problems, elsewhere], [[], []])
  })

  t.test('other pages are added, refused at their row, put in order and taken away', async (t) => {
    const { page, problems, kept, fine } = await openProfile(t, browser)
    const add = page.getByRole('button', { name: 'Add social link' })
    const row = (at: number) => page.getByRole('group', { name: `Social link ${at}`, exact: true })
    const save = () => page.locator('form', { has: add }).getByRole('button', { name: 'Save' }).click()
    await add.click()
    await row(1).getByLabel('Address').fill('https://shop.example/')
    await add.click()
    await row(2).getByLabel('Type').selectOption('GitHub')
    await row(2).getByLabel('Address').fill('https://evil.example/me')
    await save()
    await row(2)
      .getByText(/Expected a page at github\.com/)
      .waitFor()
    t.equal(await row(1).locator('.error').count(), 0)
    await fine('a row that is refused')
    await row(2).getByLabel('Address').fill(' https://github.com/me ')
    await row(1).getByLabel('Visible to buyers').uncheck()
    await row(2).getByRole('button', { name: 'Move up' }).click()
    await save()
    await page.getByText('Saved', { exact: true }).waitFor()
    t.match((await kept()).socials, [
      { type: 'github', url: 'https://github.com/me', isVisible: true },
      { type: 'website', url: 'https://shop.example/', isVisible: false },
    ])
    for (let i = 0; i < 8; i++) await add.click()
    await add.waitFor({ state: 'detached' })
    await page.reload()
    await row(2).waitFor()
    await row(1).getByRole('button', { name: 'Remove' }).click()
    await row(2).waitFor({ state: 'detached' })
    await save()
    await page.getByText('Saved', { exact: true }).waitFor()
    t.match((await kept()).socials, [{ type: 'website' }])
    t.equal((await kept()).socials.length, 1)
    t.strictSame(problems, [])
  })
}

if (chromium !== undefined) tests(chromium)
