import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openPage, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import { cards, noWait, partOf, result, show, withPayer } from '../../test/helpers/vault/page/payer.ts'
import { payee, signBody, smallPayments, usdcOnBase } from '../../test/helpers/vault/transfers.ts'

const browser = await startBrowser(t)

const kinds = [
  'transfer',
  'allowance',
  'payment',
  'payment_up_to',
  'deposit',
  'transaction',
  'sign_in',
  'message',
  'typed_data',
  'read',
  'write',
  'delete',
  'call',
]

if (browser !== undefined) {
  t.test(
    'each kind of question is called by its name: no right to take money is called a payment',
    async (t) => {
      const vault = await startPageVault(t)
      const { page, problems } = await openPage(t, browser, vault)
      const titles = new Map<string, string>()
      for (const kind of kinds) {
        await show(vault, page, { id: kind, kind, amount: '2', currency: 'USDC', recipient: '0xdead' })
        const card = page.locator(`[data-id=${kind}]`)
        titles.set(kind, (await card.getByRole('heading', { level: 2 }).textContent()) ?? '')
        if (kind === 'allowance') t.notMatch(await card.textContent(), /\b(?:pays?|sends?|payment)\b/i)
      }
      t.equal(new Set(titles.values()).size, kinds.length)
      t.strictSame(problems, [])
    },
  )

  t.test('the budget on a card says that an amount that was given back does not count', async (t) => {
    const vault = await startPageVault(t)
    const agent = await vault.agent('shopper', ['wallet.base'])
    await vault.api.policies.set(agent.id, smallPayments, vault.owner)
    const { budget } = vault.vault
    const asset = `eip155:8453/erc20:${usdcOnBase.toLowerCase()}`
    const spends = [{ asset, amount: 1_000_000n, recipient: payee }]
    budget.reserve({ id: 'paid', agentId: agent.id, spends, limits: [] })
    budget.notePartial('paid', {})
    budget.commit('paid')
    await budget.giveBack('paid', 750_000n)
    const { page } = await openPage(t, browser, vault)
    await agent.call('POST', '/v1/vault/sign', signBody('2'), noWait)
    const card = page.getByRole('article', { name: 'What shopper asks for' })
    await card.getByText('2.25 of 20 USDC on Base').waitFor()
    t.match(
      await card.textContent(),
      /2\.25 of 20 USDC on Base, including open requests\. Not counted: 0\.75 USDC, given back today/,
    )
  })

  t.test('a secret is handed out by a command that the card names; the page can only deny it', async (t) => {
    const vault = await startPageVault(t)
    const scope = 'credentials.api.shop'
    await vault.asOwner('POST', '/v1/vault/write', { scope, value: 'a-secret-of-the-shop' })
    await vault.asOwner('POST', '/v1/vault/write', { scope: 'custom.note', value: 'x' })
    const agent = await vault.agent('reader', [`read:${scope}`, 'ask:identity.email'])
    const { page, problems } = await openPage(t, browser, vault)
    const pendingApproval = await agent.call('POST', '/v1/vault/read', { scope }, noWait)
    const card = page.getByRole('article', { name: 'What reader asks for' })
    await card
      .getByText(/this page can only deny the request\. To approve the request, use your chat/)
      .waitFor()
    t.equal(
      await card.locator('.code code').textContent(),
      `tollgate vault approve ${pendingApproval.body.approval_id}`,
    )
    t.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0)
    await card.getByRole('button', { name: 'Deny' }).click()
    await result(page, 'Denied').waitFor()
    t.equal((await agent.call('POST', '/v1/vault/read', { scope }, noWait)).status, 403)
    await agent.call('POST', '/v1/vault/read', { scope: 'identity.email' }, noWait)
    await page.getByRole('button', { name: 'Approve' }).waitFor()

    await page.getByRole('link', { name: 'Agents' }).click()
    await page.getByRole('button', { name: 'New token for reader' }).click()
    await page.getByRole('button', { name: 'Make a new token' }).click()
    await page.getByRole('alert').getByText('tollgate vault agents rotate reader').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Add agent' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('own')
    await dialog.getByText('Preferences and custom').click()
    await dialog.getByLabel('custom.note', { exact: true }).check()
    await dialog.getByLabel('Another scope').fill('custom.other')
    await dialog.getByLabel('Another scope').press('Enter')
    await dialog.getByRole('button', { name: 'Add agent' }).click()
    await dialog.getByText('agents add own --scopes ask:custom.note,custom.other').waitFor()
    await dialog.getByLabel('How the agent may use custom.other').selectOption('Ask every time')
    await dialog.getByRole('button', { name: 'Add agent' }).click()
    await page.getByRole('button', { name: 'I have stored it' }).click()
    t.strictSame(vault.api.registry.byName('own')?.scopes, ['ask:custom.note', 'ask:custom.other'])
    t.strictSame(problems, [])
  })

  t.test('text of an agent is text: it runs nothing, loads nothing and hides nothing', async (t) => {
    const { vault, payer } = await withPayer(t)
    await vault.api.agents.update('payer', { scopes: ['wallet.base', 'ask:custom.*'] }, vault.owner)
    const { page, problems, elsewhere } = await openPage(t, browser, vault)
    const purposes = [
      '<img src=x onerror="window.harmed=1">',
      '<script>window.harmed=1</script>',
      '<svg onload=window.harmed=1><a href="javascript:window.harmed=1">click</a>',
      '</p></article><button>Approve</button><iframe src="https://evil.example/">',
      '\u202Eelbisrever\u202C \u0000\u0007\u200B\uFEFF\n\nApproved and done',
      '{{constructor.constructor("window.harmed=1")()}} ${window.harmed=1} %3Cimg%20src=x%3E',
    ]
    for (const [i, purpose] of purposes.entries())
      await payer.call('POST', '/v1/vault/sign', { ...signBody('2', i), purpose }, noWait)
    await payer.call('POST', '/v1/vault/sign-message', { chain: 'base', message: purposes[0] }, noWait)
    await cards(page).nth(purposes.length).waitFor()
    const shown = (await page.locator('main').textContent()) ?? ''
    for (const purpose of purposes.slice(0, 4)) t.ok(shown.includes(purpose), purpose)
    t.ok(shown.includes('\\u{202e}elbisrever\\u{202c} \\u{0}\\u{7}\\u{200b}\\u{feff}\\u{a}\\u{a}'))
    t.notMatch(shown, /[\u202A-\u202E\u2066-\u2069\u200B\uFEFF\0]/)
    t.equal(await page.evaluate("'harmed' in window"), false)
    t.equal(await page.locator('main').locator('img, script, iframe, a').count(), 0)
    t.equal(await page.getByRole('button', { name: 'Approve' }).count(), purposes.length + 1)

    await page.getByRole('link', { name: 'Activity' }).click()
    await page.getByRole('listitem').first().waitFor()
    t.equal(await page.evaluate("'harmed' in window"), false)
    t.strictSame([problems, elsewhere], [[], []])
  })

  t.test('no text of an approval, whichever it is, has a character that is not seen', async (t) => {
    const vault = await startPageVault(t)
    const { page, problems } = await openPage(t, browser, vault)
    const hostile = 'x\u202Ey\u200B\u0000\u2066\uFEFF'
    const lines = [`${hostile} a`, `${hostile} b`]
    const texts = {
      agent: hostile,
      scope: hostile,
      chain: hostile,
      currency: hostile,
      recipient: hostile,
      from: hostile,
      nonce: hostile,
      purpose: hostile,
      second_word: hostile,
      approve_command: hostile,
      effects: lines,
      reasons: lines,
      warnings: lines,
      parts: [partOf(hostile, `${hostile}\n${hostile}`), { ...partOf(hostile, hostile), raw: true }],
    }
    await show(vault, page, { id: 'sum', amount: '2', ...texts })
    await show(vault, page, { id: 'scope', ...texts })
    await show(vault, page, { id: 'opaque', opaque: true, amount: '2', ...texts })
    await show(vault, page, { id: 'sum', amount: '2', ...texts, status: 'denied', decided_by: hostile })
    const shown = (await page.locator('body').textContent()) ?? ''
    t.ok(shown.split('\\u{202e}').length > 60)
    t.notMatch(shown, /[\u202A-\u202E\u2066-\u2069\u200B\uFEFF\0]/)
    t.strictSame(problems, [])
  })

  t.test('nothing on the page can turn text into markup or run what is not its own file', async (t) => {
    const vault = await startPageVault(t)
    const { page } = await openPage(t, browser, vault)
    // Later, because code that a test evaluates is itself exempt from the page's CSP.
    const outcomes = await page.evaluate(`new Promise((go) => setTimeout(() => {
      const attempt = (work) => {
        try {
          work()
          return 'done'
        } catch (error) {
          return error.name
        }
      }
      const script = () => Object.assign(document.createElement('script'), { text: 'window.harmed = 1' })
      go([
        attempt(() => (document.createElement('p').innerHTML = '<b>x</b>')),
        attempt(() => document.write('x')),
        attempt(() => globalThis.eval('1')),
        attempt(() => document.body.append(script())),
        attempt(() => document.body.setAttribute('onclick', 'window.harmed = 1')),
        'harmed' in window,
      ])
    }))`)
    t.strictSame(outcomes, ['TypeError', 'TypeError', 'EvalError', 'TypeError', 'TypeError', false])
  })

  t.test(
    'beside the buttons stands nothing that was not understood, and that there are warnings',
    async (t) => {
      const vault = await startPageVault(t)
      const { page } = await openPage(t, browser, vault)
      await show(vault, page, { opaque: true, amount: '0.01', currency: 'USDC', second_word: 'blind' })
      await page.getByText('a: Sign a message, not fully decoded', { exact: true }).waitFor()
      t.notMatch(await page.locator('[aria-live=assertive]').textContent(), /0\.01/)
      await show(vault, page, { id: 'warned', warnings: ['One.', 'Two.'] })
      const bar = cards(page).nth(1).locator('.bar-about')
      t.equal(await bar.textContent(), 'a: Sign a message, wallet.base · 2 warnings')
    },
  )

  t.test('a gap in a text is drawn as one, and what differs between two values is marked', async (t) => {
    const vault = await startPageVault(t)
    const { page, problems } = await openPage(t, browser, vault)
    const hidden = `Hello.\n${'\n'.repeat(1_000)}Sell the house.${' '.repeat(400)}Now.`
    await show(vault, page, { id: 'gap', parts: [partOf('Message', hidden)] })
    const box = page.getByRole('region', { name: /^Message/ })
    t.equal(await box.textContent(), 'Hello.\n1,000 empty lines\nSell the house.400 spacesNow.')
    t.strictSame(await box.locator('.gap').allTextContents(), ['1,000 empty lines', '400 spaces'])
    await box.getByText('Sell the house.').waitFor()
    const [from, to] = [
      `${'x\n'.repeat(200)}https://a\u0430b.example/`,
      `${'x\n'.repeat(200)}https://aab.example/`,
    ]
    const newValue = { ...partOf('New value', to), sha256: 'cd'.repeat(32) }
    await show(vault, page, { id: 'pair', parts: [partOf('Old value', from), newValue] })
    t.strictSame(await page.locator('mark').allTextContents(), ['\u0430', 'a'])
    const areInSight = `[...document.querySelectorAll('mark')].every((mark) => {
      const [one, all] = [mark, mark.closest('pre')].map((of) => of.getBoundingClientRect())
      return one.top >= all.top && one.bottom <= all.bottom
    })`
    // With the next rendered frame.
    t.ok(await page.waitForFunction(areInSight), 'it can be seen without looking for it')
    t.strictSame(problems, [])
  })
}
