import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openPage, startPageVault } from '../../test/helpers/vault/page/openPage.ts'
import { go, noWait } from '../../test/helpers/vault/page/views.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

const browser = await startBrowser(t)

const allDay = { fromMinute: 0, toMinute: 1_439, timeZone: 'UTC', outside: 'ask' }

if (browser !== undefined) {
  t.test('an agent is added with its scopes; its token is shown once and works', async (t) => {
    const vault = await startPageVault(t)
    await vault.asOwner('POST', '/v1/vault/write', { scope: 'identity.name', value: 'Ada' })
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Agents')
    await page.getByText('No agents yet').waitFor()
    await page.getByRole('button', { name: 'Add agent' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('reader')
    const own = dialog.getByLabel('Another scope')
    await own.fill('identity.fullname')
    await own.press('Enter')
    await dialog.getByRole('alert').getByText('got "identity.fullname"').waitFor()
    await own.fill('read:credentials.api.github')
    await own.press('Enter')
    await dialog.getByText('The agent gets the secret itself').waitFor()
    await dialog
      .getByLabel('How the agent may use credentials.api.github')
      .selectOption('Use it in calls, never see it')
    await dialog.getByText('The agent gets the secret itself').waitFor({ state: 'hidden' })
    await dialog.getByText('Who you are').click()
    await dialog.getByLabel('Full name identity.name').check()
    await dialog.getByText('Wallets').click()
    await dialog.getByLabel('Base wallet.base').check()
    await dialog.getByLabel('How the agent may use wallet.base').selectOption('Ask every time')
    await page.getByLabel('Requests per minute').fill('sixty')
    await page.getByLabel('Requests per minute').press('Enter')
    await dialog.getByText('requests_per_minute: Expected').waitFor()
    await page.getByLabel('Requests per minute').fill('60')
    await page.getByLabel('Requests per minute').press('Enter')
    const token = (await page.getByRole('dialog').locator('.code code').textContent())!
    const headers = { authorization: `Bearer ${token}` }
    const read = () => vault.call('POST', '/v1/vault/read', { scope: 'identity.name' }, headers)
    t.strictSame((await read()).body, { value: 'Ada' })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy token' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), token)
    for (let i = 0; i < 3; i++) await page.keyboard.press('Escape')
    await page.getByText('Have you stored this').waitFor()
    t.equal(await page.getByRole('dialog').locator('.code code').textContent(), token, 'Escape asks first')
    await page.getByRole('button', { name: 'I have stored it' }).click()
    await page.locator('dialog').waitFor({ state: 'detached' })
    t.notOk((await page.content()).includes(token), 'it is not there any more')
    const card = page.getByRole('article', { name: 'reader' })
    t.strictSame([...(vault.api.registry.byName('reader')?.scopes ?? [])].sort(), [
      'ask:wallet.base',
      'credentials.api.github',
      'identity.name',
    ])
    await card.getByText('ask:wallet.base').waitFor()
    await card.getByText('At most 60 requests per minute.').waitFor()

    await page.getByRole('button', { name: 'New token for reader' }).click()
    await page.getByRole('button', { name: 'Make a new token' }).click()
    await page.getByRole('button', { name: 'I have stored it' }).click()
    t.equal((await read()).status, 401, 'the old token is worth nothing')

    await page.getByRole('button', { name: 'Change reader' }).click()
    await dialog.getByLabel('Full name identity.name').waitFor()
    const chosen = dialog.getByRole('checkbox', { checked: true })
    while ((await chosen.count()) > 0) await chosen.first().uncheck()
    await page.getByRole('button', { name: 'Save' }).click()
    await card.getByText('This agent has no scopes yet.').waitFor()
    await page.getByRole('button', { name: 'Revoke reader' }).click()
    await dialog.waitFor()
    await page.keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
    t.equal(vault.api.registry.byName('reader')?.revokedAt, null)
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Revoke', 'the focus is back')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('1 revoked').waitFor()
    t.match(vault.api.registry.byName('reader')?.revokedAt, /^\d{4}-/)
    t.strictSame(problems, [])
  })

  t.test('a token stays shown until it is stored, whatever happens to the view behind it', async (t) => {
    const vault = await startPageVault(t)
    await vault.agent('reader', ['identity.name'])
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Agents')
    await page.getByRole('button', { name: 'New token for reader' }).click()
    await page.getByRole('button', { name: 'Make a new token' }).click()
    const shown = page.getByRole('dialog').locator('.code code')
    const token = await shown.textContent()
    await page.goBack()
    await page.getByRole('heading', { name: 'Approvals', level: 1, includeHidden: true }).waitFor()
    t.equal(await shown.textContent(), token, 'the way back')
    await vault.asOwner('POST', '/v1/vault/lock', {})
    await page.getByRole('heading', { name: 'The vault is locked', includeHidden: true }).waitFor()
    t.equal(await shown.textContent(), token, 'a lock')
    await page.getByRole('button', { name: 'I have stored it' }).click()
    await page.locator('dialog').waitFor({ state: 'detached' })
    t.notOk((await page.content()).includes(token!))
    t.strictSame(problems, [])
  })

  t.test('a policy is written in the form: from then on the vault decides by it', async (t) => {
    const vault = await startPageVault(t)
    const payer = await vault.agent('payer', ['wallet.base'])
    await vault.api.policies.set('payer', { ...smallPayments, hours: allDay }, vault.owner)
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Policies')
    const card = page.getByRole('article', { name: 'Policy: payer' })
    await card.getByText('up to 1').waitFor()
    t.equal((await payer.call('POST', '/v1/vault/sign', signBody('2'), noWait)).status, 202)

    await page.getByRole('button', { name: 'Edit policy: payer' }).click()
    await page.getByLabel('Approve without asking up to').fill('9')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('autoApproveUpTo ≤ perTransaction ≤ perDay').waitFor()
    await page.getByLabel('Approve without asking up to').fill('3')
    await page.getByLabel('At most per transaction').fill('4')
    await page.getByLabel('Messages').selectOption('Refuse')
    await page.getByRole('button', { name: 'Save' }).click()
    await card.getByText('up to 3').waitFor()
    t.equal((await payer.call('POST', '/v1/vault/sign', signBody('2.5', 1), noWait)).status, 200)
    t.equal((await payer.call('POST', '/v1/vault/sign', signBody('4.5', 2), noWait)).status, 403)
    t.strictSame(vault.api.policies.get('payer', vault.owner).policy, {
      assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '4', perDay: '20', autoApproveUpTo: '3' }],
      recipients: 'any',
      hours: allDay,
      allowances: 'ask',
      opaque: 'ask',
      messages: 'deny',
    })
    t.strictSame(problems, [])
  })

  t.test('what the form does not have is written as JSON, and the form keeps it', async (t) => {
    const vault = await startPageVault(t)
    await vault.agent('payer', ['wallet.base'])
    const { page, problems } = await openPage(t, browser, vault)
    await go(page, 'Policies')
    await page.getByRole('button', { name: 'Set policy: payer' }).click()
    await page.getByLabel('At most per day').fill('10')
    await page.getByLabel('May pay').selectOption('Listed recipients only')
    await page.getByLabel('Addresses').fill('base 0x70997970C51812dc3A010C7d01b50e0d17dc79C8')
    await page.getByRole('button', { name: 'Edit as JSON' }).click()
    const json = page.getByLabel('As JSON')
    const policy = JSON.parse(await json.inputValue())
    t.match(policy, { recipients: [{ chain: 'base', address: /^0x7099/ }], otherRecipients: 'deny' })
    await json.fill('{ not json')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('Expected a JSON object.').waitFor()
    const assets = [{ ...policy.assets[0], perDay: 10 }]
    await json.fill(JSON.stringify({ ...policy, assets, fees: [{ chain: 'base', perTransaction: '0.001' }] }))
    await page.getByRole('button', { name: 'Back to the form' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('article', { name: 'Policy: payer' }).getByText('To 1 listed recipient.').waitFor()
    t.match(vault.api.policies.get('payer', vault.owner).policy, {
      assets: [{ perDay: '10' }],
      fees: [{ perTransaction: '0.001' }],
    })

    await page.getByRole('button', { name: 'Set policy: Whole vault' }).click()
    t.equal(await page.getByLabel('At most per day').inputValue(), '100', 'a start that can be kept')
    await page.getByRole('button', { name: 'Add a limit' }).click()
    await page.getByLabel('At most per transaction').nth(1).fill('x')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').filter({ visible: true }).waitFor()
    await page.getByLabel('At most per transaction').nth(1).fill('7')
    await page.getByLabel('Only to').nth(1).fill('0x70997970C51812dc3A010C7d01b50e0d17dc79C8')
    await page.getByRole('button', { name: 'Add a limit' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('article', { name: 'Policy: Whole vault' }).getByText('at most 100').waitFor()
    t.match(vault.api.policies.get('vault', vault.owner).policy, {
      limits: [
        { chain: 'base', symbol: 'USDC', perDay: '100' },
        { chain: 'base', symbol: 'USDC', perTransaction: '7', recipient: /^0x7099/ },
      ],
    })
    await page.getByRole('button', { name: 'Edit policy: Whole vault' }).click()
    await page.getByRole('button', { name: 'Remove this limit' }).first().click()
    await page.getByRole('button', { name: 'Edit as JSON' }).click()
    await page.getByRole('button', { name: 'Back to the form' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    const whole = page.getByRole('article', { name: 'Policy: Whole vault' })
    await whole.getByText('at most 100').waitFor({ state: 'detached' })
    await whole.getByText('at most 7').waitFor()
    t.equal((vault.api.policies.get('vault', vault.owner).policy as { limits: [] }).limits.length, 1)
    await page.getByRole('button', { name: 'Remove policy: payer' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('button', { name: 'Set policy: payer' }).waitFor()
    t.throws(() => vault.api.policies.get('payer', vault.owner), { code: 'NOT_FOUND' })
    t.strictSame(problems, [])
  })
}
