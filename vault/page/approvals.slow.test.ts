import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { linkOf, openPage, openTab, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import { cards, noWait, partOf, result, show, withPayer } from '../../test/helpers/vault/page/payer.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'

const browser = await startBrowser(t)

const patient = { prefer: 'wait=120' }

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
}
