import { statSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { openTutorial } from '../helpers/docs/openTutorial.ts'
import { startBrowser } from '../helpers/vault/browser.ts'

const browser = await startBrowser(t)

t.test('two commands of the README sell an API, and two more buy a call of it', async (t) => {
  const tutorial = await openTutorial(t, 'README.md', [9000])
  const api = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end('{ "city": "Lisbon", "temperatureC": 21 }')
  })
  t.teardown(() => api.close())
  api.listen(Number(tutorial.here('9000')), '127.0.0.1')
  await tutorial.copy('Sell an API in two commands')
  t.match(tutorial.shown(), 'HTTP/1.1 402 Payment Required')
  t.match(tutorial.shown(), /"data":\s*\{\s*"city":\s*"Lisbon"/)
})

t.test('a newcomer who copies "Sell your own API" has sold a call of it', async (t) => {
  const tutorial = await openTutorial(t, 'docs/tutorials/sell-your-api.md', [9000])
  await tutorial.copy('Start the demo')
  await tutorial.copy('Start an API')
  await tutorial.copy('Put a price on it')
  await tutorial.copy('Call it without paying')
  await tutorial.copy('Pay for a call')
  await tutorial.copy('See the sale')
  t.strictSame(tutorial.left(), [])
})

t.test(
  'a newcomer who copies "Sell a model by the token" is charged for the tokens of each call',
  async (t) => {
    const tutorial = await openTutorial(t, 'docs/tutorials/sell-by-the-token.md', [9000])
    await tutorial.copy('Start the demo')
    await tutorial.copy('Start a model')
    await tutorial.copy('Put a price on its tokens')
    await tutorial.copy('See what is offered')
    await tutorial.copy('Buy a short and a long call')
    await tutorial.copy('See the sale')
    t.strictSame(tutorial.left(), [])
  },
)

if (browser !== undefined) {
  t.test('a newcomer who copies "Take a payment" has sold tea, and the shop knows it', async (t) => {
    const tutorial = await openTutorial(t, 'docs/tutorials/take-a-payment.md', [9100])
    await tutorial.copy('Start the demo')
    await tutorial.copy('Write the shop')
    await tutorial.copy('Buy')
    const page = await browser.newPage()
    await page.goto(tutorial.here('http://127.0.0.1:9100'))
    const opened = page.waitForEvent('popup')
    await page.getByRole('button', { name: 'Buy for 0.50 USDC' }).click()
    const popup = await opened
    await popup.getByText('Terminal', { exact: true }).click()
    const line = await popup.locator('code', { hasText: 'tollgate pay' }).textContent()
    t.match(line, /^tollgate pay /)
    await tutorial.type(line!)
    await page.getByText('Thank you! Your tea is on its way.').waitFor({ timeout: 60_000 })
    await tutorial.copy('See that it is paid')
    t.strictSame(tutorial.left(), [])
  })

  t.test(
    'a newcomer who copies "Let an agent pay" has a vault, and an agent that bought twice',
    async (t) => {
      const tutorial = await openTutorial(t, 'docs/tutorials/agent-with-a-vault.md', [8420])
      await tutorial.copy('Start the demo')
      await tutorial.copy('Start a vault')
      await tutorial.copy('Say what an agent may spend')
      await tutorial.copy('Fill the wallet')
      await tutorial.copy('Buy a cheap call')
      await tutorial.copy('Buy a call that needs you')
      const [link] = /http:\S+\/owner\/#code=[\w-]+/.exec(tutorial.shown())!
      const page = await browser.newPage()
      await page.goto(link)
      await page.getByText('0.25 USDC').first().waitFor()
      await page.getByRole('button', { name: 'Approve' }).click()
      await page.getByText('Approved and done').waitFor({ timeout: 60_000 })
      await tutorial.copy('See what happened')
      t.strictSame(tutorial.left(), [])
      for (const file of ['password', 'token'])
        t.equal(statSync(join(tutorial.folder, 'try', file)).mode & 0o077, 0, `${file} is private`)
    },
  )
}

t.test('a newcomer who copies "Write a plugin" has one that refuses', async (t) => {
  const tutorial = await openTutorial(t, 'docs/tutorials/write-a-plugin.md', [8090, 8091])
  await tutorial.copy('Generate a plugin')
  await tutorial.copy('Run it in a gateway')
  await tutorial.copy('Call it')
  await tutorial.copy('Make it refuse')
  await tutorial.copy('Load it')
  t.strictSame(tutorial.left(), [])
})
