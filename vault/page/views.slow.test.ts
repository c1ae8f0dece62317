import type { Page } from 'playwright-core'
import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { linkOf, openPage, openTab, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import { go, noWait } from '../../test/helpers/vault/page/views.ts'
import { proxyFor } from '../../test/helpers/vault/remote/world.ts'
import { password } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import { seriousFindings } from '../../test/helpers/web/openSite.ts'
import { startRelay } from '../relay/startRelay.ts'

const browser = await startBrowser(t)

const rows = (page: Page) => page.getByRole('main').getByRole('listitem')

async function newPairing(page: Page, service: string): Promise<string> {
  await page.getByRole('button', { name: 'New pairing' }).click()
  await page.getByLabel('Service').fill(service)
  await page.getByLabel('Agent', { exact: true }).selectOption('remote-bot')
  await page.getByRole('button', { name: 'Create command' }).click()
  const command = await page.getByRole('dialog').locator('.code code').textContent()
  return command ?? ''
}

if (browser !== undefined) {
  t.test('the vault is locked and unlocked on the page, and a wrong password waits', async (t) => {
    const vault = await startPageVault(t)
    const agent = await vault.agent('a', ['ask:identity.name'])
    const { page, problems } = await openPage(t, browser, vault)
    await agent.call('POST', '/v1/vault/read', { scope: 'identity.name' }, noWait)
    await page.getByRole('article').waitFor()
    await page.getByRole('button', { name: 'Lock' }).click()
    await page.getByRole('heading', { name: 'The vault is locked' }).waitFor()
    t.equal(vault.api.state().locked, true)
    t.equal(await page.getByRole('article').count(), 0)
    t.equal(await page.getByRole('navigation').count(), 0)
    t.equal((await agent.call('POST', '/v1/vault/read', { scope: 'identity.name' })).status, 423)

    const field = page.getByLabel('Password')
    await field.fill('not this one')
    await page.keyboard.press('Enter')
    await page.getByText('The password does not open this vault.').waitFor()
    await page.locator('button[type=submit]:not(:disabled)').waitFor()
    await field.fill(password)
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'What a asks for' }).waitFor()
    t.equal(vault.api.state().locked, false)
    t.strictSame(problems, [])
  })

  t.test('a lock and an unlock from elsewhere show at once; the password is never kept', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault)
    await go(page, 'Agents')
    await vault.asOwner('POST', '/v1/vault/lock', {})
    await page.getByLabel('Password').fill(password)
    await vault.asOwner('POST', '/v1/vault/unlock', { password })
    await page.getByRole('heading', { name: 'Agents', level: 1 }).waitFor()
    t.notMatch(await page.content(), password)
    t.notMatch(await page.evaluate('JSON.stringify([sessionStorage, localStorage])'), password)
  })

  t.test('a page of a locked vault waits out what the vault waits for', async (t) => {
    const vault = await startPageVault(t)
    await vault.asOwner('POST', '/v1/vault/lock', {})
    const { page } = await openTab(t, browser, vault)
    await page.goto(await linkOf(vault))
    await page.getByRole('heading', { name: 'The vault is locked' }).waitFor()
    // On a slow machine the vault's own wait ends before its response arrives.
    await page.route('**/v1/vault/unlock', (route) =>
      route.fulfill({
        status: 401,
        headers: { 'retry-after': '2' },
        json: { error: { code: 'BAD_PASSWORD', message: 'The password does not open this vault.' } },
      }),
    )
    for (let i = 0; i < 2; i++) {
      await page.getByLabel('Password').fill('wrong')
      await page.keyboard.press('Enter')
      await page.getByText(/accepts the next password in \d+ seconds?\./).waitFor()
      t.equal(await page.getByRole('button', { name: 'Unlock' }).isDisabled(), true)
      await page.locator('button[type=submit]:not(:disabled)').waitFor()
    }
  })

  t.test('the log is read, filtered, paged and verified', async (t) => {
    const vault = await startPageVault(t)
    const agent = await vault.agent('reader', ['read:custom.*', 'auto:write:custom.*'])
    const other = await vault.agent('other', ['wallet.base'])
    for (let i = 0; i < 60; i++)
      await agent.call('POST', '/v1/vault/write', { scope: `custom.n${i}`, value: 'x' })
    await other.call('POST', '/v1/vault/read', { scope: 'custom.n1' })
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Activity')
    const refused = rows(page).filter({ hasText: 'other Read a value' })
    await refused.getByText('Denied', { exact: true }).waitFor()
    await refused.getByText('The agent has no grant for this request.').waitFor()
    const exact = await refused.locator('time').getAttribute('title')
    t.match(exact, new RegExp(String(new Date().getFullYear())))
    t.equal(await refused.locator('time .visually-hidden').textContent(), exact, 'told exactly, too')
    await page.getByRole('region', { name: 'Today' }).waitFor()
    await page.getByLabel('Who').selectOption('reader')
    await rows(page).filter({ hasText: 'custom.n59' }).waitFor()
    t.equal(await rows(page).filter({ hasText: 'other' }).count(), 0)
    while (await page.getByRole('button', { name: 'Show older' }).isVisible()) {
      const before = await rows(page).count()
      await page.getByRole('button', { name: 'Show older' }).click()
      await page.getByText('Loading', { exact: true }).waitFor({ state: 'detached' })
      t.ok((await rows(page).count()) >= before)
    }
    t.equal(await rows(page).count(), 60)
    await agent.call('POST', '/v1/vault/write', { scope: 'custom.n60', value: 'x' })
    await other.call('POST', '/v1/vault/sign', signBody('2'), noWait)
    await rows(page).filter({ hasText: 'custom.n60' }).waitFor()
    t.equal(await rows(page).count(), 61, 'what comes stands above what was opened')
    await page.getByLabel('Text').fill('STORE n4')
    await rows(page).filter({ hasText: 'custom.n60' }).waitFor({ state: 'detached' })
    await page.getByText('End of the log.').waitFor()
    t.equal(await rows(page).count(), 11, 'n4 and n40 to n49, on whichever page of the log')
    await page.getByLabel('Outcome').selectOption('Denied')
    await page.getByText('Nothing here').waitFor()
    await page.getByRole('button', { name: 'Show everything' }).click()
    await rows(page).filter({ hasText: 'other Sign a transaction, 2 USDC' }).first().waitFor()
    await page.getByRole('button', { name: 'Verify log' }).click()
    await page.getByText(/^All \d+ entries are unchanged\.$/).waitFor()
    t.strictSame(problems, [])
  })

  t.test('a lie in the log shows what the agent said beside what it would have done, as text', async (t) => {
    const vault = await startPageVault(t)
    const { page, problems } = await openPage(t, browser, vault)
    const entry = {
      timestamp: '2025-03-01T10:00:00Z',
      agent: 'x',
      action: 'SIGN',
      currency: 'USDC',
      status: 'DENIED',
    }
    const details = { seq: 9, amount: '0.01', chain: 'base', code: 'TX_MISMATCH' }
    const tamper = { claimed: '0.01 USDC <b>to a friend</b>', found: '250 USDC to \u202Edead' }
    const unknown = { ...entry, action: 'NEW_ONE', details: { seq: 8, code: 'NEW_CODE' } }
    await page.route('**/v1/vault/activity?*', (route) =>
      route.fulfill({ json: { events: [{ ...entry, ...tamper, details }, unknown] } }),
    )
    await go(page, 'Activity')
    await rows(page).first().waitFor()
    const text = (await rows(page).first().textContent()) ?? ''
    t.ok(text.includes('The agent said0.01 USDC <b>to a friend</b>The vault found250 USDC to \\u{202e}dead'))
    t.notMatch(text, /TX_MISMATCH|SIGN\b/)
    t.match(
      await rows(page).nth(1).textContent(),
      /x New one.*New code/,
      'what the page does not know is told, too',
    )
    await page.getByRole('region', { name: /2025/ }).waitFor()
    t.strictSame(problems, [])
  })

  t.test('without a relay the page says how to have one', async (t) => {
    const vault = await startPageVault(t)
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Pairing')
    await page.getByText('This vault is not connected to a relay').waitFor()
    t.equal(await page.getByRole('button', { name: 'New pairing' }).count(), 0)
    t.strictSame(problems, [])
  })

  t.test(
    'an agent of another machine is paired: a command to copy, four words, and the end of it',
    async (t) => {
      const relay = await startRelay({ host: '127.0.0.1', port: 0 })
      t.teardown(() => relay.close())
      const vault = await startPageVault(t, { relay: relay.url })
      await vault.agent('remote-bot', ['identity.name'])
      const { page, problems } = await openPage(t, browser, vault)
      await go(page, 'Pairing')
      await page.getByText('No other machine is paired').waitFor()

      const phrases = Promise.withResolvers<string>()
      const command = await newPairing(page, 'vps-1')
      const dialog = page.getByRole('dialog')
      await dialog.getByText('Not used yet.').waitFor()
      await page.keyboard.press('Escape')
      await dialog.getByText('Have you stored this').waitFor()
      const flag = (name: string) => new RegExp(`--${name} (\\S+)`).exec(command)?.[1] ?? ''
      const paired = proxyFor(t, {
        pair: flag('pair'),
        serviceId: flag('service-id'),
        vaultId: flag('vault'),
        hpkeKey: flag('hpke-key'),
        relay: flag('relay'),
        port: 0,
        home: t.testdir({}),
        onPhrase: phrases.resolve,
      })
      const phrase = await phrases.promise
      await dialog.getByText(phrase, { exact: true }).waitFor()
      await dialog.getByRole('button', { name: 'They match' }).click()
      await dialog.getByText('Paired. The agent can now reach this vault').waitFor()
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
      const card = page.getByRole('article', { name: 'vps-1' })
      const proxy = await paired
      await card.getByText('Paired', { exact: true }).waitFor()
      t.equal((await fetch(`${proxy.url}/v1/capabilities`)).status, 200)
      t.notOk((await page.content()).includes(flag('pair')), 'the token is shown once')

      await page.getByRole('button', { name: 'Revoke vps-1' }).click()
      await page.getByRole('button', { name: 'End pairing' }).click()
      await card.getByText('Ended').waitFor()
      t.strictSame(problems, [])
    },
  )

  t.test('a pairing that a restore suspended is resumed on the page', async (t) => {
    const relay = await startRelay({ host: '127.0.0.1', port: 0 })
    t.teardown(() => relay.close())
    const vault = await startPageVault(t, { relay: relay.url })
    await vault.agent('remote-bot', ['identity.name'])
    const { page } = await openPage(t, browser, vault)
    const offer = await vault.api.pairings.create({ service_id: 'vps-1', agent: 'remote-bot' }, vault.owner)
    const resumed: string[] = []
    vault.api.pairings.resume = async (id) => {
      resumed.push(id)
      return { id }
    }
    await page.route('**/v1/vault/pairings', async (route) => {
      const [pairing] = vault.api.pairings.list(vault.owner).pairings
      await route.fulfill({
        json: { pairings: [{ ...pairing, state: resumed[0] ? 'paired' : 'suspended' }] },
      })
    })
    await go(page, 'Pairing')
    await page.getByRole('button', { name: 'Resume vps-1' }).click()
    await page.getByText('Paired', { exact: true }).waitFor()
    t.strictSame(resumed, [offer.id])
  })

  t.test(
    'nothing is wider than a small phone, and axe finds nothing serious, in light and in dark',
    async (t) => {
      const vault = await startPageVault(t)
      const agent = await vault.agent('a-name-that-is-as-long-as-a-name-can-be-64-letters-no-more-of-it', [
        'wallet.base',
        'address.shipping.a-very-long-name-of-an-address-that-has-no-space-in-it',
      ])
      const purpose = 'W'.repeat(300)
      for (const i of [1, 2])
        await agent.call('POST', '/v1/vault/sign', { ...signBody(`2.${'1'.repeat(i)}`, i), purpose }, noWait)
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page, problems } = await openPage(t, browser, vault, {
          colorScheme,
          viewport: { width: 360, height: 740 },
        })
        await page.getByRole('article').first().waitFor()
        for (const view of ['Approvals', 'Activity', 'Agents', 'Policies', 'Pairing']) {
          await go(page, view)
          await page.getByText('Loading', { exact: true }).waitFor({ state: 'detached' })
          t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, `${view}, ${colorScheme}`)
          t.strictSame(await seriousFindings(page), [], `${view}, ${colorScheme}`)
        }
        await go(page, 'Agents')
        await page.getByRole('button', { name: 'Change a-name' }).click()
        await page.getByRole('dialog').getByText('What the agent may use').waitFor()
        t.strictSame(await seriousFindings(page), [], `a dialog, ${colorScheme}`)
        t.strictSame(problems, [])
      }
    },
  )

  t.test('a page that was there before opens without its vault, and says so', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault)
    await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)')
    await vault.close()
    await page.getByText('The vault does not respond.').waitFor()
    await page.reload()
    await page.getByText('The vault does not respond.').waitFor()
    const kept = await page.evaluate<string[]>(`(async () => {
      const shell = await caches.open((await caches.keys()).join())
      return (await shell.keys()).map(({ url }) => new URL(url).pathname)
    })()`)
    t.ok(kept.includes('/owner/main.js'))
    t.strictSame(
      kept.filter((path) => !path.startsWith('/owner/')),
      [],
      'no answer of the API is kept',
    )

    const again = await startPageVault(t, { home: vault.home, port: Number(new URL(vault.url).port) })
    await page.getByText('You are signed out.').waitFor()
    await page.getByLabel('Link').fill(await linkOf(again))
    await page.keyboard.press('Enter')
    await page.getByText('Nothing to approve').waitFor()
  })

  t.test('the page can be installed', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault)
    await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)')
    const session = await page.context().newCDPSession(page)
    const { installabilityErrors } = await session.send('Page.getInstallabilityErrors')
    const problems = installabilityErrors.map(({ errorId }) => errorId)
    // Tests use profiles that store nothing, and such a profile installs nothing.
    t.strictSame(
      problems.filter((problem) => problem !== 'in-incognito'),
      [],
    )
  })
}
