import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore } from '../../test/helpers/web/dashboard/fullStore.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

async function setUp(t: Test, browser: Browser) {
  const site = await startSite(t)
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  const store = await fillStore(site, seller.wallet)
  const tab = await openDashboard(t, browser, `${site.url}/dashboard`, seller.inBrowser)
  return { site, store, ...tab }
}

/** The error messages on the page, in order. */
const errorsOf = (page: Page) => page.locator('[role=alert]:visible').allTextContents()
const hasFocus = (page: Page, id: string) => page.locator(`#${id}:focus`).waitFor()

function tests(browser: Browser): void {
  t.test('what is wrong with a form stands at its fields, once, in words for its reader', async (t) => {
    const { page, site } = await setUp(t, browser)
    const isForReaders = async (what: string) => {
      const errors = await errorsOf(page)
      t.notMatch(
        errors.join(' '),
        /JSON|string|pattern|\burl\b|upstreamHeaders|PATCH|Request|eip155|null/,
        what,
      )
      t.strictSame(await seriousFindings(page), [], what)
      return errors
    }
    await page.goto(`${site.url}/dashboard/links/new`)
    await page.getByLabel('Price per call, USDC').fill('cheap')
    await page.getByRole('button', { name: 'Create link' }).click()
    await page.getByRole('alert').first().waitFor()
    t.strictSame(await isForReaders('a link'), [
      'Enter a title that names what you sell.',
      'Enter the full address, such as https://api.example.com/v1.',
      'Enter a price in USDC, such as 0.01, or 0 for free.',
    ])
    await hasFocus(page, 'title')
    await page.getByLabel('Title').fill('Weather')
    t.equal((await errorsOf(page)).length, 2, 'what was changed is not wrong any more')
    await page.getByLabel('Price per call, USDC').fill('0.02')
    await page.getByLabel('Address of your API').fill(await site.seller())
    await page.getByText('More', { exact: true }).click()
    await page.getByLabel('Slug').fill('weather')
    await page.getByRole('button', { name: 'Create link' }).click()
    await page.getByText('You already have a link with this slug.').waitFor()
    t.equal((await isForReaders('a taken slug')).length, 1)
    await hasFocus(page, 'slug')

    page.on('dialog', (dialog) => void dialog.accept())
    await page.goto(`${site.url}/dashboard/profile`)
    await page.getByLabel('Username').fill('A B')
    await page.getByRole('button', { name: 'Save', exact: true }).first().click()
    await page.getByText('Enter 3 to 32 characters of a-z, 0-9 and _.').waitFor()
    await hasFocus(page, 'username')
    await page.getByLabel('Wallet on Solana').fill('nowhere')
    await page.getByRole('button', { name: 'Sign and save' }).click()
    await page.getByText('Enter a Solana address').waitFor()
    await hasFocus(page, 'solana')
    await page.getByRole('button', { name: 'Add social link' }).click()
    await page.locator('fieldset').getByLabel('Address').last().fill('github')
    await page.getByRole('button', { name: 'Save', exact: true }).last().click()
    await page.getByText('Enter the full address of the page').waitFor()
    t.equal((await isForReaders('a profile')).length, 3)

    await page.goto(`${site.url}/dashboard/webhooks`)
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    for (const event of ['Something was bought', 'A refund is due', 'A link was suspended'])
      await page.getByLabel(event).uncheck()
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await page.getByText('Enter the address that receives events').waitFor()
    await isForReaders('a webhook')
    await page.getByLabel('Address').fill('https://shop.example/hooks')
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await page.getByText('Choose at least one event.').waitFor()
    t.equal((await isForReaders('a webhook without events')).length, 1)

    await page.goto(`${site.url}/dashboard/developer`)
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('a\u202eb')
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('alert').first().waitFor()
    t.equal((await isForReaders('a key')).length, 1)

    await page.goto(`${site.url}/dashboard/links/import`)
    await page.getByText('Text', { exact: true }).click()
    await page.getByLabel('OpenAPI document').fill('{}')
    await page.getByLabel('Other prices').fill('nonsense')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByText('Line 1 is not a price rule').waitFor()
    await page.getByLabel('Other prices').fill('')
    await page.getByLabel('Price per call, USDC').fill('cheap')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByText('Enter a price in USDC').waitFor()
    t.equal((await isForReaders('an import')).length, 1)
    await hasFocus(page, 'price')
  })

  t.test('a seller without a program makes a payment link, and a link without an API', async (t) => {
    const { page, site, problems } = await setUp(t, browser)
    await page.goto(`${site.url}/dashboard/sessions`)
    await page.getByRole('link', { name: 'New payment link' }).click()
    await page.getByLabel('Amount, USDC').fill('0')
    await page.getByRole('button', { name: 'Create payment link' }).click()
    await page.getByText('Enter a title that names what the buyer pays for.').waitFor()
    await page.getByLabel('Title').fill('Two lessons')
    await page.getByRole('button', { name: 'Create payment link' }).click()
    await page.getByText('Expected an amount above 0').waitFor()
    t.equal((await errorsOf(page)).length, 1)
    await page.getByLabel('Amount, USDC').fill('12.50')
    await page.getByLabel('Return address').fill('https://shop.example/thanks')
    await page.getByRole('button', { name: 'Create payment link' }).click()
    const preview = page.getByRole('link', { name: 'See what your buyer sees' })
    const checkout = (await preview.getAttribute('href'))!
    t.match(await page.locator('pre').textContent(), checkout)
    t.strictSame(await seriousFindings(page), [])
    await page.getByRole('link', { name: 'All payment sessions' }).click()
    await page.getByText('Two lessons').waitFor()
    await page.goto(checkout)
    await page.getByRole('heading', { name: 'Two lessons' }).waitFor()

    await page.goto(`${site.url}/dashboard/links/new`)
    await page.getByLabel('A page or a file').check()
    await page.getByLabel('Title').fill('Guide')
    await page.getByLabel('Address of what you sell').fill('https://files.example/guide.pdf')
    await page.getByLabel('Price, USDC').fill('5')
    await page.getByRole('button', { name: 'Create link' }).click()
    await page.getByText('are then sent to what they bought').waitFor()
    await page.getByRole('link', { name: 'Go to the link' }).click()
    await page.getByLabel('A page or a file').waitFor()
    t.ok(await page.getByLabel('A page or a file').isChecked())
    t.equal(await page.getByRole('heading', { name: 'Health' }).count(), 0, 'nothing is called')
    t.strictSame(problems, [])
  })

  t.test('prices by request are written as a table, whose errors stand at it with their place', async (t) => {
    const { page, site } = await setUp(t, browser)
    await page.goto(`${site.url}/dashboard/links/new`)
    await page.getByLabel('Title').fill('Images')
    await page.getByLabel('Address of your API').fill(await site.seller())
    await page.getByLabel('Pricing').selectOption('rules')
    t.equal(await page.getByLabel('Price, USDC').inputValue(), '0.05')
    await page.getByRole('button', { name: 'Edit as JSON' }).click()
    const table = page.getByLabel('Prices, USDC')
    t.match(JSON.parse(await table.inputValue()), { rules: [{ price: '0.05' }], otherwise: '0.01' })
    const create = page.getByRole('button', { name: 'Create link' })
    const refused = async (text: string, error: RegExp) => {
      await table.fill(text)
      await create.click()
      await page.getByRole('alert').first().waitFor()
      const [only, ...more] = await errorsOf(page)
      t.match(only, error)
      t.strictSame(more, [])
      await hasFocus(page, 'rules')
    }
    await refused('{"rules": [', /Enter JSON/)
    await refused(
      '{"rules": [{"when": {"path": "render"}, "price": "1"}], "otherwise": null}',
      /price\.rules\[0\]\.when\.path: Expected a path/,
    )
    await table.fill('{"rules": [{"when": {"path": "/render/*"}, "price": "1.5"}], "otherwise": "0.2"}')
    await create.click()
    await page.getByText('Your link is ready').waitFor()
    t.strictSame(await seriousFindings(page), [])
    await page.getByRole('link', { name: 'Go to the link' }).click()
    t.equal(await page.getByLabel('Price of every other request, USDC').inputValue(), '0.2')
    t.strictSame(await seriousFindings(page), [])
    await page.goto(`${site.url}/dashboard/links`)
    await page.getByTitle('from 0.20 to 1.50 USDC').waitFor()
  })

  t.test('a form that was changed and not saved is left after a question only', async (t) => {
    const { page, site, store } = await setUp(t, browser)
    const asks = () => page.getByRole('heading', { name: 'Leave without saving?' })
    const title = page.getByLabel('Title')
    await page.getByRole('link', { name: 'Links', exact: true }).click()
    await page.getByRole('link', { name: 'Weather for any place' }).first().click()
    await title.fill('Wind')
    const leave = page.getByRole('button', { name: 'Leave', exact: true })
    await page.getByRole('link', { name: 'Reviews', exact: true }).click()
    await asks().waitFor()
    t.strictSame(await seriousFindings(page), [])
    await page.getByRole('button', { name: 'Stay here' }).click()
    t.equal(await title.inputValue(), 'Wind', 'nothing is lost')

    await page.getByRole('link', { name: 'Reviews', exact: true }).click()
    await asks().waitFor()
    await page.evaluate(staysAndLeavesAgain)
    await page.waitForTimeout(300)
    t.ok(await asks().isVisible(), 'the answer to one question is not that to the next')
    await page.getByRole('button', { name: 'Stay here' }).click()

    await page.goBack()
    await asks().waitFor()
    t.match(page.url(), store.weather, 'the address is that of what is shown')
    await page.keyboard.press('Escape')
    t.equal(await title.inputValue(), 'Wind')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await asks().waitFor()
    await page.getByRole('button', { name: 'Stay here' }).click()

    const dialogs: string[] = []
    page.on('dialog', (dialog) => {
      dialogs.push(dialog.type())
      void dialog.dismiss()
    })
    await page.goto(`${site.url}/`).catch(() => undefined)
    t.strictSame(dialogs, ['beforeunload'])

    await page.goBack()
    await asks().waitFor()
    await leave.click()
    await page.getByRole('heading', { name: 'Links', level: 1 }).waitFor()
    await page.goForward()
    await title.waitFor()
    t.equal(await title.inputValue(), 'Weather for any place')
    await title.fill('Wind')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Reviews', exact: true }).click()
    await page.getByRole('heading', { name: 'Reviews', level: 1 }).waitFor()
    await page.goto(`${site.url}/`)
    t.equal(dialogs.length, 1, 'what is saved is left at once')
  })
}

/**
 * In the page: presses "Stay here", then the next link before the browser has drawn or reported that the
 * dialog was closed.
 */
const staysAndLeavesAgain = `(async () => {
  const press = (selector, text) => [...document.querySelectorAll(selector)].find((one) => one.textContent.trim() === text).click()
  press('button', 'Stay here')
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  press('a', 'Reviews')
})()`

if (chromium !== undefined) tests(chromium)
