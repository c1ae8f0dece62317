import type { Page } from 'playwright-core'
import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import {
  linkOf,
  openPage,
  openTab,
  type PageVault,
  startPageVault,
} from '../../test/helpers/vault/page/openPage.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'
import type { ApprovalView, PartView } from '../approvals/approval.ts'

const browser = await startBrowser(t)
const patient = { prefer: 'wait=120' }
const noWait = { prefer: 'wait=0' }
/** Every approval on the page. */
const cards = (page: Page) => page.getByRole('article')
const result = (page: Page, text: string) => cards(page).getByText(text)

/** A vault whose agent may spend 1 USDC without asking. */
async function withPayer(t: Parameters<typeof startPageVault>[0]) {
  const vault = await startPageVault(t)
  const payer = await vault.agent('payer', ['wallet.base', 'ask:identity.email', 'identity.name'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  return { vault, payer }
}

if (browser !== undefined) {
  t.test('a link signs the owner in, leaves the address, and works once', async (t) => {
    const vault = await startPageVault(t)
    const link = await linkOf(vault)
    const { page, problems } = await openTab(t, browser, vault)
    await page.goto(link)
    await page.getByText('Nothing to approve').waitFor()
    t.equal(page.url(), `${vault.url}/owner/`)
    t.notMatch(await page.evaluate('JSON.stringify([history.state, localStorage, document.cookie])'), /vow_/)
    await page.reload()
    await page.getByText('Nothing to approve').waitFor()

    const second = await openTab(t, browser, vault)
    await second.page.goto(link)
    await second.page.getByText('This sign-in link was already used, or it has expired.').waitFor()
    t.equal(second.page.url(), `${vault.url}/owner/`)
    await second.page.getByLabel('Link').fill(`  ${await linkOf(vault)} `)
    await second.page.keyboard.press('Enter')
    await second.page.getByText('Nothing to approve').waitFor()

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in as the owner' }).waitFor()
    await second.page.getByRole('link', { name: 'Agents' }).click()
    await second.page.getByRole('heading', { name: 'Sign in as the owner' }).waitFor()
    t.strictSame([problems, second.problems], [[], []])
  })

  t.test('a payment above the threshold appears, and with a click its agent has the signature', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page, problems, elsewhere } = await openPage(t, browser, vault)
    const answer = payer.call('POST', '/v1/vault/sign', { ...signBody('2'), purpose: 'Lunch' }, patient)
    const card = page.getByRole('article', { name: 'What payer asks for' })
    await card.waitFor()
    for (const text of [
      '2 USDC on Base',
      'Send 2 USDC to 0x000000000000000000000000000000000000dEaD. (Base)',
      'Pay up to 0.000006 ETH to the network.',
      'The recipient is a burn address, so what it gets is lost.',
      '2 USDC is above 1 USDC, the limit for approval by rules.',
      'Lunch',
      '2 of 20 USDC on Base',
    ])
      await card.getByText(text).first().waitFor()
    const [approval] = vault.api.approvals.list(vault.owner, { status: 'pending' }).approvals
    t.equal((await card.getByText(/^Decision/).getAttribute('title')) ?? '', approval!.decision_hash)
    t.match(await card.getByRole('timer').textContent(), /^[0-4]:[0-5]\d$|^5:00$/)
    t.equal(await page.title(), '(1) Tollgate vault')
    t.match(await page.locator('[aria-live=assertive]').textContent(), /payer: Send money, 2 USDC/)
    await card.getByRole('button', { name: 'Approve' }).click()
    t.match(await answer, { status: 200, body: { signed_tx: /^0x/ } })
    await card.getByText('Approved and done').waitFor()
    t.equal(await card.getByRole('button').count(), 0)
    t.equal(await page.title(), 'Tollgate vault')
    t.strictSame([problems, elsewhere], [[], []])
  })

  t.test('what is denied is refused to its agent', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page, problems } = await openPage(t, browser, vault)
    const answer = payer.call('POST', '/v1/vault/sign', signBody('2'), patient)
    await page.getByRole('button', { name: 'Deny' }).click()
    t.match(await answer, { status: 403, body: { error: { code: 'APPROVAL_DENIED' } } })
    await result(page, 'Denied').waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'History' }).waitFor()
    t.equal(await page.getByRole('listitem').filter({ hasText: 'Denied' }).count(), 1)
    t.strictSame(problems, [])
  })

  t.test('a double click decides once', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page } = await openPage(t, browser, vault)
    const posted: string[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/approve')) posted.push(request.url())
    })
    const answer = payer.call('POST', '/v1/vault/sign', signBody('2'), patient)
    await page.getByRole('button', { name: 'Approve' }).dblclick()
    t.equal((await answer).status, 200)
    await result(page, 'Approved and done').waitFor()
    t.equal(posted.length, 1)
    t.equal(await page.getByRole('alert').filter({ visible: true }).count(), 0)
  })

  t.test('what is decided in one tab, or by another channel, is decided in every tab', async (t) => {
    const { vault, payer } = await withPayer(t)
    const [one, two] = [await openPage(t, browser, vault), await openPage(t, browser, vault)]
    const first = payer.call('POST', '/v1/vault/sign', signBody('2', 1), patient)
    await two.page.getByRole('button', { name: 'Approve' }).waitFor()
    await one.page.getByRole('button', { name: 'Approve' }).click()
    t.equal((await first).status, 200)
    await result(two.page, 'Approved and done').waitFor()
    t.equal(await cards(two.page).getByRole('button').count(), 0)

    const second = payer.call('POST', '/v1/vault/sign', signBody('3', 2), patient)
    await one.page.getByText('3 USDC on Base', { exact: true }).waitFor()
    const [waiting] = vault.api.approvals.list(vault.owner, { status: 'pending' }).approvals
    await vault.api.approvalQueue.deny(waiting!.id, 'telegram')
    t.equal((await second).status, 403)
    for (const { page } of [one, two]) await result(page, 'Denied by telegram').waitFor()
    t.strictSame([...one.problems, ...two.problems], [])
  })

  t.test(
    'the page approves what it shows: a hash that is not the one of the question is refused',
    async (t) => {
      const { vault, payer } = await withPayer(t)
      const { page } = await openPage(t, browser, vault)
      await page.route('**/approve', async (route) => {
        const { decision_hash } = route.request().postDataJSON()
        await route.continue({
          postData: JSON.stringify({ decision_hash: decision_hash.replace(/./g, '0') }),
        })
      })
      const answer = payer.call('POST', '/v1/vault/sign', signBody('2'), patient)
      await page.getByRole('button', { name: 'Approve' }).click()
      await page.getByRole('alert').getByText('decision_hash').waitFor()
      t.equal(vault.api.approvals.list(vault.owner, { status: 'pending' }).approvals.length, 1)
      await page.getByRole('button', { name: 'Deny' }).click()
      t.equal((await answer).status, 403)
    },
  )

  t.test(
    'by the keyboard alone: Tab to the button, Enter, and the focus stays at the question',
    async (t) => {
      const { vault, payer } = await withPayer(t)
      const { page } = await openPage(t, browser, vault)
      const answer = payer.call('POST', '/v1/vault/sign', signBody('2'), patient)
      await page.locator('button:text("Approve"):not([aria-disabled=true])').waitFor()
      const focused = () => page.evaluate<string>("document.activeElement?.textContent ?? ''")
      const seen: string[] = []
      while ((await focused()) !== 'Approve' && seen.length < 30) {
        await page.keyboard.press('Tab')
        seen.push(await focused())
      }
      t.equal(await focused(), 'Approve', `reached by way of ${seen.join(', ')}`)
      const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
      t.equal(outline, 'solid', 'it can be seen where the focus is')
      await page.keyboard.press('Enter')
      t.equal((await answer).status, 200)
      await result(page, 'Approved and done').waitFor()
      t.match(await focused(), /Approved/)
    },
  )

  t.test(
    'a new question moves nothing that is being read, and takes no click in its first moment',
    async (t) => {
      const { vault, payer } = await withPayer(t)
      const { page } = await openPage(t, browser, vault)
      await payer.call('POST', '/v1/vault/sign', signBody('2', 1), noWait)
      const button = cards(page).first().getByRole('button', { name: 'Approve' })
      const before = await button.boundingBox()
      await payer.call('POST', '/v1/vault/sign', signBody('3', 2), noWait)
      await cards(page).nth(1).waitFor()
      t.match(await cards(page).first().textContent(), '2 USDC')
      t.strictSame(await button.boundingBox(), before)
      await page.evaluate(`
        const { promise, resolve } = Promise.withResolvers()
        window.arrived = promise
        new MutationObserver((changes) => {
          for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes]))
            if (node.matches?.('article')) resolve(node.querySelector('button').getAttribute('aria-disabled'))
        }).observe(document.querySelector('main'), { childList: true, subtree: true })
        undefined
      `)
      await payer.call('POST', '/v1/vault/sign', signBody('4', 3), noWait)
      t.equal(await page.evaluate('window.arrived'), 'true', 'no click counts in its first moment')
    },
  )

  t.test('what could not be read is loud, claims nothing, and needs a second word', async (t) => {
    const { vault, payer } = await withPayer(t)
    const { page, problems } = await openPage(t, browser, vault)
    const { serializeTransaction } = await import('viem')
    const unsigned_tx = serializeTransaction({
      chainId: 8453,
      type: 'eip1559',
      nonce: 5,
      gas: 60_000n,
      maxFeePerGas: 1_000_000_000n,
      maxPriorityFeePerGas: 1n,
      to: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
      data: '0xdeadbeef0011',
    })
    const body = { chain: 'base', agent_name: 'x', amount: 0, unsigned_tx }
    const answer = payer.call('POST', '/v1/vault/sign', body, patient)
    const card = cards(page)
    await card.getByText('Not fully decoded', { exact: true }).waitFor()
    await card.getByText('The vault could not verify the claim.').waitFor()
    t.equal(await card.locator('.button.primary').count(), 0, 'nothing says go')
    const approve = card.getByRole('button', { name: 'Approve anyway' })
    await card.locator('button:text("Deny"):not([aria-disabled=true])').waitFor()
    t.equal(await approve.getAttribute('aria-disabled'), 'true')
    await approve.click({ force: true })
    const [waiting] = vault.api.approvals.list(vault.owner, { status: 'pending' }).approvals
    const word = waiting!.second_word!
    const field = card.getByLabel(`Type “${word}”`)
    t.equal(await page.evaluate('document.activeElement.name'), 'second_word', 'that is what is missing')
    await field.fill('yes')
    await page.keyboard.press('Enter')
    t.equal(await approve.getAttribute('aria-disabled'), 'true')
    t.equal(vault.api.approvals.list(vault.owner, { status: 'pending' }).approvals.length, 1)
    await field.fill(word)
    await approve.click()
    t.equal((await answer).status, 200)
    t.strictSame(problems, [])
  })

  t.test(
    'everything that is signed or stored is there whole, and the buttons are within reach',
    async (t) => {
      const vault = await startPageVault(t)
      const { page, problems } = await openPage(t, browser, vault, { viewport: { width: 360, height: 740 } })
      const message = `${'a line of many\n'.repeat(1_000)}\\u202e the end`
      const rtl = '"quoted" \u0634\u0627\u0631\u0639 12 </pre><b>x</b>'
      await show(vault, page, {
        parts: [partOf('Message', message), partOf('Old value', 'A'), partOf('New value', rtl)],
      })
      const box = page.getByRole('region', { name: 'Message, from the agent, 14.7 KiB' })
      t.equal(await box.textContent(), message)
      t.equal(await page.getByRole('region', { name: 'New value' }).textContent(), rtl)
      t.equal(await page.evaluate(`getComputedStyle(document.querySelector('pre')).unicodeBidi`), 'isolate')
      await page.getByText('SHA-256').first().click()
      await page.getByText('ab'.repeat(32)).first().waitFor()
      for (const name of ['Approve', 'Deny']) {
        const { y = 0, height = 0 } = (await page.getByRole('button', { name }).boundingBox()) ?? {}
        t.ok(y > 300 && y + height <= 740, `${name} is on the screen`)
      }
      await box.focus()
      const scrolled = page.evaluate(
        `new Promise((go) => document.activeElement.addEventListener('scroll', () => go('scrolled'), { once: true }))`,
      )
      await page.keyboard.press('End')
      t.equal(await scrolled, 'scrolled', 'by the keyboard')
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
      const places =
        'Array.from(document.querySelectorAll(".pair pre"), (one) => one.getBoundingClientRect().top)'
      const stacked = await page.evaluate<number[]>(places)
      t.ok(stacked[0]! < stacked[1]!, 'stacked on a phone')
      await page.setViewportSize({ width: 1_280, height: 900 })
      const beside = await page.evaluate<number[]>(places)
      t.equal(beside[0], beside[1], 'side by side on a desk')
      t.strictSame(problems, [])
    },
  )

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

const partOf = (title: string, text: string): PartView => ({
  title,
  by: 'agent',
  raw: false,
  text,
  format: 'text',
  bytes: Buffer.byteLength(text),
  sha256: 'ab'.repeat(32),
  whole: true,
  secret: false,
})

/** Shows an approval that no agent requested: the vault's own come in only a few kinds, and are small. */
async function show(vault: PageVault, page: Page, fields: object): Promise<void> {
  const approval = viewOf(fields)
  vault.tell({ type: 'approval', agentId: 'a', approval })
  const { id, decision_hash: hash, status } = approval
  await page
    .locator(`[data-id="${id}"][data-status="${status}"]`)
    .filter({ has: page.getByTitle(hash) })
    .waitFor()
}

const viewOf = (fields: object): ApprovalView => ({
  id: 'shown',
  status: 'pending',
  agent: 'a',
  operation: 'vault_sign_message',
  scope: 'wallet.base',
  chain: 'base',
  amount: null,
  currency: null,
  recipient: null,
  from: null,
  nonce: null,
  asked_before: null,
  first_time: null,
  effects: ['It does something.'],
  warnings: [],
  reasons: [],
  opaque: false,
  purpose: null,
  decision_hash: 'ab'.repeat(32),
  created_at: new Date().toISOString(),
  expires_at: new Date(Date.now() + 300_000).toISOString(),
  decided_at: null,
  decided_by: null,
  kind: 'message',
  parts: [],
  second_word: null,
  approve_command: null,
  ...fields,
})
