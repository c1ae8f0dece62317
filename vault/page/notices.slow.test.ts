import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { linkOf, openPage, openTab, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import {
  cards,
  noWait,
  partOf,
  result,
  show,
  viewOf,
  withPayer,
} from '../../test/helpers/vault/page/payer.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'

const browser = await startBrowser(t)

if (browser !== undefined) {
  t.test('a card that was moved, or says something else now, takes no click', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault)
    const posted: string[] = []
    await page.route('**/approve', async (route) => {
      posted.push(route.request().postDataJSON().decision_hash)
      await route.fulfill({ status: 409, json: { error: { code: 'APPROVAL_RESOLVED', message: 'No.' } } })
    })
    await show(vault, page, {})
    const live = page.locator('button:text("Approve"):not([aria-disabled=true])')
    await live.waitFor()
    const afterMove = await page.evaluate(`
      document.querySelector('main').prepend(Object.assign(document.createElement('p'), { textContent: 'x' }))
      document.querySelector('article .button.primary').click()
      document.querySelector('article .button.primary').getAttribute('aria-disabled')
    `)
    t.strictSame([afterMove, posted], ['true', []])
    await live.waitFor()

    const other = 'cd'.repeat(32)
    await show(vault, page, { decision_hash: other, effects: ['Something else.'] })
    await page.getByText('This request changed. Read it again.').waitFor()
    t.equal(await cards(page).count(), 1)
    t.equal(await page.getByText('Something else.').count(), 1)
    t.equal(await page.locator('article .button.primary').getAttribute('aria-disabled'), 'true')
    await live.click()
    await page.getByRole('alert').getByText('No.').waitFor()
    t.strictSame(posted, [other])
  })

  t.test('a desktop notification tells of each question once, in plain text', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page } = await openTab(t, browser, vault, { permissions: ['notifications'] })
    await page.addInitScript(`
      window.shown = []
      window.Notification = class {
        static permission = 'granted'
        static requestPermission = async () => 'granted'
        constructor(title, options) {
          window.shown.push({ title, ...options })
        }
      }
    `)
    await page.goto(await linkOf(vault))
    await page.getByRole('button', { name: 'Notify me on the desktop' }).click()
    await page.getByRole('button', { name: 'Notifications are on', pressed: true }).waitFor()
    const body = { ...signBody('2'), purpose: '<b>x</b>' }
    await payer.call('POST', '/v1/vault/sign', body, noWait)
    await cards(page).waitFor()
    await payer.call('POST', '/v1/vault/sign', body, noWait)
    const [approval] = vault.api.approvals.list(vault.owner).approvals
    t.match(await page.evaluate('window.shown'), [
      {
        title: 'An agent is waiting for you',
        body: /^payer: Send money, 2 USDC\. Send 2 USDC to/,
        tag: approval!.id,
      },
    ])
    await page.getByRole('button', { name: 'Notifications are on' }).click()
    await payer.call('POST', '/v1/vault/sign', { ...signBody('3', 1) }, noWait)
    await cards(page).nth(1).waitFor()
    t.equal(await page.evaluate('window.shown.length'), 1)
  })

  t.test('whatever the vault warns of stands above every view, as text, until it is gone', async (t) => {
    const vault = await startPageVault(t)
    let warnings = [
      { code: 'NEW_ONE', message: 'Two <b>chains</b> share a key.', action: 'Derive another.' },
      { code: 'OTHER', message: 'The log is short.', action: null },
    ]
    const { page, problems } = await openTab(t, browser, vault)
    await page.route('**/v1/vault/status', async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ json: { ...(await answer.json()), log_damage: 'entry 3', warnings } })
    })
    await page.goto(await linkOf(vault))
    const banners = page.getByRole('region', { name: 'Warnings of the vault' })
    for (const view of ['Activity', 'Agents', 'Approvals']) {
      await page.getByRole('link', { name: view }).click()
      for (const text of [
        'Two <b>chains</b> share a key.',
        'Derive another.',
        'The log is short.',
        'entry 3',
      ])
        await banners.getByText(text).waitFor()
    }
    warnings = [{ code: 'LOG', message: 'Wrong: entry 3.', action: null }]
    await page.reload()
    await banners.getByText('Wrong: entry 3.').waitFor()
    t.equal(await banners.locator('.notice').count(), 1, 'the damage is told once')
    t.strictSame(problems, [])
  })

  t.test('a decided card keeps its place: clicks in one place answer one question', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault, { viewport: { width: 360, height: 700 } })
    const posted: string[] = []
    await page.route('**/approvals/**', async (route) => {
      const id = route.request().url().split('/').at(-2)!
      posted.push(id)
      await route.fulfill({ json: viewOf({ id, status: 'approved' }) })
    })
    const parts = [partOf('Message', 'Hello.')]
    for (const id of ['a', 'b', 'c', 'd']) await show(vault, page, { id, parts })
    await cards(page).nth(3).waitFor()
    const first = cards(page).first()
    const approve = first.getByRole('button', { name: 'Approve' })
    await first.locator('button:text("Approve"):not([aria-disabled=true])').waitFor()
    const placesOf = `JSON.stringify([...document.querySelectorAll('article')].map((card) => card.getBoundingClientRect()))`
    const focused = () => page.evaluate<string>('document.activeElement.className')
    const before = await page.evaluate(placesOf)
    const { x, y, width, height } = (await approve.boundingBox())!
    await page.mouse.click(x + width / 2, y + height / 2)
    await result(page, 'Approved, waiting for the agent').waitFor()
    t.equal(await focused(), 'result', 'the keyboard stays at this card')
    await show(vault, page, { id: 'a', status: 'consumed', parts })
    await result(page, 'Approved and done').waitFor()
    t.equal(await focused(), 'result')
    for (let i = 0; i < 3; i++) {
      await cards(page).nth(1).locator('button:text("Approve"):not([aria-disabled=true])').waitFor()
      await page.mouse.click(x + width / 2, y + height / 2)
    }
    t.strictSame(posted, ['a'])
    t.equal(await page.evaluate(placesOf), before)
  })

  t.test('the time left is told by the clock of the vault', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openTab(t, browser, vault)
    await page.clock.install({ time: Date.now() + 4 * 60_000 })
    await page.goto(await linkOf(vault))
    await page.getByRole('heading', { name: 'Approvals', level: 1 }).waitFor()
    await show(vault, page, {})
    t.match(await page.getByRole('timer').textContent(), /^4:5\d$|^5:0[01]$/)
  })

  t.test('what came while the line was down is there when it is up again', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page } = await openTab(t, browser, vault)
    await page.route('**/v1/vault/events', (route) => route.abort())
    await page.goto(await linkOf(vault))
    await page.getByText('The vault does not respond.').waitFor()
    await payer.call('POST', '/v1/vault/sign', signBody('2'), noWait)
    await page.unroute('**/v1/vault/events')
    await page.getByText('2 USDC on Base', { exact: true }).waitFor()
    await page.getByText('The vault does not respond.').waitFor({ state: 'hidden' })
  })
}
