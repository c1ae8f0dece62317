import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { OperatorDeps, SettlingReport } from '../../admin-api/deps.ts'
import { operatorDeps, operatorToken as token } from '../../test/helpers/admin-api/operator.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import {
  fitsItsWidth,
  openTab,
  type Site,
  seriousFindings,
  startSite,
} from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

const windows = [
  ['light', 1280],
  ['dark', 360],
] as const

/** Reports of settlers whose node works, whose node is down, and of a facilitator. */
const settling: readonly SettlingReport[] = [
  {
    network: 'eip155:8453',
    settler: 'evm:eip155:8453:0x52908400098527886e0f7030069857d2e4169ee7',
    key: {
      value: {
        address: '0x52908400098527886E0F7030069857D2E4169EE7',
        balance: 12_345_678_901_234_567n,
        paymentsLeft: 6_172n,
        inFlight: 2,
        nonce: { mined: 1_204, pending: 1_206 },
      },
      atMs: Date.now(),
      fault: undefined,
    },
    openAttempts: 3,
    gas: { today: 12_000_000_000_000n, week: 98_000_000_000_000n },
    lease: { id: 4, endsInMs: 9_000, process: { id: 4_711, isThis: true } },
  },
  {
    network: 'eip155:8453',
    settler: 'evm:eip155:8453:0x00000000000000000000000000000000000000a1',
    key: {
      value: {
        address: '0x00000000000000000000000000000000000000a1',
        balance: 0n,
        paymentsLeft: 0n,
        inFlight: 0,
        nonce: { mined: 7, pending: 7 },
        trouble: {
          kind: 'shared',
          words:
            'It has no gas for another payment: send 0.01 ETH to 0x00000000000000000000000000000000000000a1.',
        },
      },
      atMs: Date.now(),
      fault: undefined,
    },
    openAttempts: 0,
    gas: { today: 12_000_000_000_000n, week: 98_000_000_000_000n },
    lease: { id: 5, endsInMs: 9_000, process: { id: 1, isThis: false } },
  },
  {
    network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    settler: 'svm:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM',
    key: {
      value: {
        address: '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM',
        balance: 1_000_000n,
        paymentsLeft: 10n,
        inFlight: 0,
        nonce: null,
      },
      atMs: Date.now() - 180_000,
      fault: 'No answer in 2.5 s.',
    },
    openAttempts: 0,
    gas: { today: 0n, week: 5_000n },
    lease: 'any',
  },
  {
    network: 'eip155:84532',
    settler: 'https://x402.example/facilitator',
    key: null,
    openAttempts: 1,
    gas: { today: 0n, week: 0n },
    lease: 'any',
  },
]

const phases = ['guard', 'pay', 'claim', 'verify', 'forward', 'settle', 'record', 'respond']
const program: ReturnType<OperatorDeps['pipelineOf']> = {
  steps: [
    { phase: 'guard', plugin: 'rate-limit' },
    ...phases.slice(1).map((phase) => ({ phase, plugin: 'x402' })),
  ],
  deliver: ['replay-guard'],
  log: ['rate-limit', 'metrics'],
  problems: [],
  takesNoPayment: false,
  entries: [
    {
      plugin: 'rate-limit',
      phases: ['guard', 'log'],
      when: { links: ['ann/*', '*/weather'], paid: true },
      settings: [
        { name: 'points', value: 5, isDefault: false },
        { name: 'keyBy', value: 'ip', isDefault: true },
      ],
    },
    { plugin: 'x402', phases: phases.slice(1), when: undefined, settings: [] },
  ],
}

/** A service whose calls are counted by a test. */
async function site(t: Test, more: Partial<OperatorDeps> = {}): Promise<Site> {
  let f: Site | undefined
  f = await startSite(t, { operator: operatorDeps(() => f!, more) })
  f.clock.nowMs = Date.now()
  return f
}

/** Opens a view of the page, signed in. */
async function open(t: Test, f: Site, path: string, [colorScheme, width]: (typeof windows)[number]) {
  const options = { colorScheme, viewport: { width, height: 800 } }
  const tab = await openTab(t, chromium!, `${f.url}${path}`, options)
  await tab.page.getByLabel('Token').fill(token)
  await tab.page.getByRole('button', { name: 'Sign in' }).click()
  await tab.page.getByRole('heading', { level: 1 }).waitFor()
  f.clock.nowMs += 60_000
  return tab
}

/**
 * Asserts that nothing is cut and axe finds nothing serious. Takes a picture if the test run asks for one.
 */
async function fitsScreen(t: Test, page: Page, name: string): Promise<void> {
  if (process.env['PICTURES'])
    await page.screenshot({ path: `${process.env['PICTURES']}/${name}.png`, fullPage: true })
  t.ok(await fitsItsWidth(page), `${name} fits`)
  t.strictSame(await seriousFindings(page), [], name)
}

if (chromium !== undefined) {
  t.test('the operator signs in and sees where money is, wide and narrow, light and dark', async (t) => {
    let requestCount = 0
    const f = await site(t, {
      async callCounts() {
        requestCount += 40
        const calls = {
          asked: requestCount,
          paid: requestCount / 2,
          answered: requestCount / 2 - 1,
          repeated: 3,
          pending: requestCount / 40,
          refused: requestCount / 20,
          failed: requestCount / 40,
          free: 12 * requestCount,
          left: 0,
          underWay: 7,
        }
        return ['primary', 'worker-1', 'worker-2'].map((process) => ({ process, calls }))
      },
      networks: async () => [
        { network: 'eip155:8453', isOpen: true, problems: [] },
        { network: 'eip155:84532', isOpen: true, problems: ['The key 0xabc has gas for 12 settlements.'] },
        {
          network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
          isOpen: false,
          problems: ['Its facilitator does not answer.'],
        },
      ],
    })
    const { id: storeId, key } = await f.store()
    const body = { url: await f.seller(), title: 'One' }
    const { id: linkId } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
    for (const state of ['pending', 'settling', 'refund_due'] as const)
      await sell(f.db, { storeId, linkId, amount: '0.1', atMs: f.clock.nowMs, state })

    for (const window of windows) {
      const [colorScheme, width] = window
      const options = { colorScheme, viewport: { width, height: 800 } }
      const { page, problems, elsewhere } = await openTab(t, chromium, `${f.url}/operator`, options)
      await page.getByLabel('Token').fill('wrong')
      await page.keyboard.press('Enter')
      await page.getByText('This is not the operator token.').waitFor()
      await fitsScreen(t, page, `door-${width}`)
      await page.getByLabel('Token').fill(token)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByText('Sent, not confirmed yet').waitFor()
      const calls = page.getByRole('list', { name: 'In the last minute' })
      await until(async () => /\d{3}/.test((await calls.textContent()) ?? ''), 'calls of some seconds')
      await page.getByText('Live from 3 processes').waitFor()
      for (const name of ['Pending payments', 'Refunds due']) {
        const frame = page.getByRole('region', { name })
        const [needs, has] = await frame.evaluate(({ scrollWidth, clientWidth }) => [
          scrollWidth,
          clientWidth,
        ])
        t.equal(needs, has, `${name}: nothing stands beside the screen`)
      }
      await fitsScreen(t, page, `state-${width}`)
      t.strictSame([problems, elsewhere], [[], []])
      f.clock.nowMs += 60_000
    }
  })

  t.test('the live line says that nobody calls, that it is lost, and ends with the session', async (t) => {
    const f = await site(t, {
      callCounts: async () => [
        {
          process: 'gateway',
          calls: {
            asked: 0,
            paid: 0,
            answered: 0,
            repeated: 0,
            pending: 0,
            refused: 0,
            failed: 0,
            free: 0,
            left: 0,
            underWay: 0,
          },
        },
      ],
    })
    const { page, problems } = await open(t, f, '/operator', windows[1])
    await page.getByText('The chart starts with the first call.').waitFor()
    await fitsScreen(t, page, 'quiet-360')
    const below = () => page.locator('.shell-tiles').evaluate((tiles) => tiles.getBoundingClientRect().top)
    const after = await below()
    await page.route('**/api/operator/live', () => {})
    await page.reload()
    t.ok(Math.abs((await below()) - after) <= 8, 'what is below stays where it is when the first calls come')
    await page.unroute('**/api/operator/live')
    await page.reload()
    await page.getByText('The chart starts with the first call.').waitFor()
    const cookies = await page.context().cookies()
    const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
    const crowd = await Promise.all(
      Array.from({ length: 7 }, () => fetch(`${f.url}/api/operator/live`, { headers: { cookie } })),
    )
    t.strictSame(new Set(crowd.map(({ status }) => status)), new Set([200]))
    const second = await page.context().newPage()
    await second.goto(`${f.url}/operator`)
    await second.getByText('Live calls are unavailable').waitFor()
    await fitsScreen(t, second, 'lost-360')
    await Promise.all(crowd.map((one) => one.body!.cancel()))
    await until(async () => {
      await second.getByRole('button', { name: 'Try again' }).click()
      return second
        .getByText('The chart starts')
        .waitFor({ timeout: 2_000 })
        .then(
          () => true,
          () => false,
        )
    }, 'a place')
    await second.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Token').waitFor()
    t.strictSame(problems, [])
  })

  t.test('what keeps the service from working stands by its network, whole, on a phone too', async (t) => {
    const f = await site(t, {
      problems: async () => [
        `The store takes no writes: ${'database_or_disk_is_full_'.repeat(5)}`,
        'eip155:8453: no process has the settling key, so paid calls are refused. Start a process with --only jobs',
      ],
    })
    for (const window of windows) {
      const { page } = await open(t, f, '/operator', window)
      const fault = page.getByRole('listitem').filter({ hasText: 'no process has the settling key' })
      await fault.getByText('Base', { exact: true }).waitFor()
      t.notMatch(await fault.textContent(), 'eip155:8453', 'a name, no id')
      await page.getByText('The store takes no writes').waitFor()
      await fitsScreen(t, page, `problems-${window[1]}`)
    }
  })

  t.test('settling keys, stores, suspensions, programs and configuration, full', async (t) => {
    const f = await site(t, {
      settling: async () => settling,
      pipelineOf: () => program,
    })
    const made = await Promise.all(Array.from({ length: 22 }, () => f.store()))
    const { id: storeId, key, username } = made[0]!
    const displayName = 'متجر الطقس والبيانات المناخية الدقيقة للعالم'
    await f.call('PATCH', '/api/v1/profile', { key, body: { displayName } })
    const title = `The weather of everywhere and always, hour by hour, ${'with all that is known of it '.repeat(3)}`
    const add = async (more: object) =>
      (await f.call('POST', '/api/v1/links', { key, body: { url: await f.seller(), title: 'One', ...more } }))
        .body.data
    const [plain, long] = [await add({}), await add({ title, price: '0.10' })]
    for (const [i, amount] of ['0.000001', '123456789.5', '2'].entries())
      await sell(f.db, { storeId, linkId: plain.id, amount, atMs: f.clock.nowMs - i * 3_600_000 })
    const reason = 'Five of the last five health checks failed: nothing answered within 5 s.'
    for (const [id, permanent] of [
      [plain.id, false],
      [long.id, true],
    ] as const)
      await f.db.links.setSuspension(
        id,
        { sinceMs: f.clock.nowMs - 1e6, reason, cooldownUntilMs: f.clock.nowMs + 1e6, permanent },
        f.clock.nowMs,
      )

    for (const window of windows) {
      const width = window[1]
      const { page, problems, elsewhere } = await open(t, f, '/operator/keys', window)
      await page.getByText('This process (4711)').waitFor()
      await page.getByText('The chain could not be read').waitFor()
      await page.getByText('key 2 of 2').waitFor()
      await page.getByText('Another gateway (process 1)').waitFor()
      await page.getByText('This key is not used').waitFor()
      t.equal(await page.getByText('Gas used today, all keys').count(), 1, 'of a network once')
      await fitsScreen(t, page, `keys-${width}`)

      await page.getByRole('link', { name: 'Stores', exact: true }).click()
      await page.getByRole('table').waitFor()
      await fitsScreen(t, page, `stores-${width}`)
      const frame = "document.querySelector('.table-frame')"
      t.ok(
        await page.evaluate(`${frame}.scrollWidth <= ${frame}.clientWidth`),
        'nothing stands beside the screen',
      )
      await page.getByRole('link', { name: 'Next' }).click()
      await page.getByRole('link', { name: 'First page' }).waitFor()
      t.equal(await page.getByRole('row').count(), 3, 'two on the second page')
      await page.getByLabel('Name').fill(username)
      await page.keyboard.press('Enter')
      await page.getByText(displayName).waitFor()
      t.equal(await page.getByRole('row').count(), 2)
      t.match(page.url(), /search=/)
      await page.getByLabel('Name').fill('nobody of this name')
      await page.keyboard.press('Enter')
      await page.getByText('No stores match').waitFor()
      await fitsScreen(t, page, `stores-none-${width}`)

      await page.getByRole('link', { name: 'Suspensions' }).click()
      await page.getByText('Permanent', { exact: true }).waitFor()
      await fitsScreen(t, page, `suspensions-${width}`)

      await page.getByRole('link', { name: `${username}/${long.slug}` }).click()
      await page.getByText('Configuration entries').waitFor()
      await page.getByText('2 settings').click()
      await fitsScreen(t, page, `programs-${width}`)
      await page.getByLabel('Link').fill('nobody/none')
      await page.keyboard.press('Enter')
      await page.getByText('No such link').waitFor()

      await page.getByRole('link', { name: 'Configuration' }).click()
      await page.getByText('publicUrl').waitFor()
      await fitsScreen(t, page, `configuration-${width}`)
      t.strictSame([problems, elsewhere], [[], []])
    }
    const { page } = await open(t, f, '/operator/suspensions', windows[0])
    await page.getByRole('button', { name: 'Check and lift One' }).click()
    await page.getByText('One accepts calls again.').waitFor()
    await page.getByRole('heading', { name: 'One link' }).waitFor()
    t.equal((await f.db.links.find(plain.id))?.suspension, null)
  })

  t.test('the same with nothing to show, and with a service that fails', async (t) => {
    const away = async () => {
      throw new Error('away')
    }
    const f = await site(t)
    const { page } = await open(t, f, '/operator/keys', windows[1])
    await page.getByText('No network is available').waitFor()
    for (const [entry, words] of [
      ['Stores', 'No stores yet'],
      ['Suspensions', 'No link is suspended'],
      ['Pipelines', 'Which link?'],
    ] as const) {
      await page.getByRole('link', { name: entry, exact: true }).click()
      await page.getByText(words).waitFor()
      await fitsScreen(t, page, `${entry.toLowerCase()}-empty-360`)
    }
    const broken = await site(t, {
      settling: away,
      operatorView: { stores: away, suspended: away, gasByDay: away },
    })
    const tab = await open(t, broken, '/operator/keys', windows[0])
    for (const entry of ['Settling keys', 'Stores', 'Suspensions']) {
      await tab.page.getByRole('link', { name: entry, exact: true }).click()
      await tab.page.getByText('The data could not be loaded').waitFor()
      await tab.page.getByRole('button', { name: 'Try again' }).waitFor()
    }
    await fitsScreen(t, tab.page, 'fault-1280')
  })
}
