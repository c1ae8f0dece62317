import { randomUUID } from 'node:crypto'
import { signInBrowser } from '../../admin-api/browser.ts'
import { sell } from '../../admin-api/sell.ts'
import type { Wallet } from '../../admin-api/wallets.ts'
import type { Site } from '../openSite.ts'

const HOUR_MS = 60 * 60_000

/** Texts of sellers and buyers, of any content. */
export interface Texts {
  readonly title: string
  readonly description: string
  readonly displayName: string
  readonly bio: string
  readonly comment: string
  readonly detail: string
}

export const plainTexts: Texts = {
  title: 'Weather for any place',
  description: 'Temperature, wind and rain for the next 48 hours.',
  displayName: 'Northern Weather',
  bio: 'Forecasts since 1998.',
  comment: 'Fast, and right so far.',
  detail: 'The API answered 502 Bad Gateway five times in a row.',
}

/** Fills the store of a wallet with something of everything that the dashboard shows, as of the site's clock. */
export async function fillStore(site: Site, wallet: Wallet, texts: Texts = plainTexts) {
  const { db, clock } = site
  const browser = await signInBrowser(site, wallet, { origin: site.url })
  const storeId: string = browser.response.body.data.store.id
  const nowMs = clock.nowMs
  await db.stores.update(
    storeId,
    { displayName: texts.displayName, bio: texts.bio, developerModeEnabled: true },
    nowMs,
  )
  const url = await site.seller()
  const callApi = (method: string, path: string, body: unknown) =>
    site.call(method, path, {
      body,
      headers: { origin: site.url, cookie: browser.cookie, 'x-csrf-token': browser.csrfToken },
    })
  const linkOf = async (title: string, more: object) => {
    const { description } = texts
    const { body } = await callApi('POST', '/api/v1/links', { url, title, description, ...more })
    if (body.success !== true) throw new Error(`Expected a link, got ${JSON.stringify(body)}`)
    return body.data.id as string
  }
  const weather = await linkOf(texts.title, {
    price: '0.02',
    isPublic: true,
    tags: ['weather'],
    slug: 'weather',
  })
  const maps = await linkOf('Map tiles', { price: '0.005', isPublic: true, slug: 'maps' })
  const secret = await linkOf('Private feed', { price: '1.50', isStealth: true })
  await linkOf('Status page', { price: '0', slug: 'status' })

  for (let i = 0; i < 60; i++) {
    const linkId = [weather, weather, maps, secret][i % 4]!
    const amount = ['0.02', '0.02', '0.005', '1.5'][i % 4]!
    const ago = Math.floor(((i * i) / 3) * 0.45 * HOUR_MS) + 60_000
    const buyer = `0x${String(i % 17).padStart(40, 'b')}`
    await sell(db, {
      storeId,
      linkId,
      amount,
      atMs: nowMs - ago,
      buyer,
      state: i % 9 === 0 ? 'settled' : 'delivered',
    })
  }
  const traffic = Array.from({ length: 24 * 14 }, (_, i) => ({
    linkId: weather,
    hour: Math.floor(nowMs / HOUR_MS) - i,
    views: 2 + (i % 5),
    ...{ challenges: 1 + (i % 4), calls: 1, failedCalls: 0 },
  }))
  await db.stats.addTraffic(traffic)
  const refundDue = await sell(db, {
    storeId,
    linkId: maps,
    amount: '0.005',
    atMs: nowMs - 3 * HOUR_MS,
    state: 'refund_due',
  })
  const paidBack = await sell(db, {
    storeId,
    linkId: secret,
    amount: '1.5',
    atMs: nowMs - 50 * HOUR_MS,
    state: 'refunded',
  })

  for (let i = 30; i > 0; i--) {
    const isGood = i !== 12 && i !== 13
    await db.links.addHealthEvent({
      ...{ linkId: weather, atMs: nowMs - i * 60_000, kind: 'probe', ok: isGood },
      ...{ status: isGood ? 200 : 502, latencyMs: 40 + ((i * 37) % 90), detail: isGood ? '' : texts.detail },
    })
  }
  const suspension = {
    sinceMs: nowMs - HOUR_MS,
    reason: texts.detail,
    cooldownUntilMs: nowMs - 60_000,
    permanent: false,
  }
  await db.links.setSuspension(maps, suspension, nowMs - HOUR_MS)

  const comment = texts.comment
  for (const [i, positive] of [true, true, false].entries()) {
    const purchaseId = await sell(db, { storeId, linkId: weather, amount: '0.02', atMs: nowMs - i * HOUR_MS })
    await db.reviews.add({
      id: randomUUID(),
      purchaseId,
      linkId: weather,
      storeId,
      wallet: `0x${'c'.repeat(40)}`,
      isPositive: positive,
      comment: positive ? comment : null,
      createdAtMs: nowMs - i * HOUR_MS,
    })
  }
  const hookBody = {
    url: 'https://shop.example/hooks',
    description: texts.title,
    events: ['purchase.confirmed', 'refund.due'],
  }
  const hook = await callApi('POST', '/api/v1/webhooks', hookBody)
  const hookId: string = hook.body.data.id
  await db.webhooks.test(hookId, `msg_${randomUUID().replaceAll('-', '')}`, nowMs)
  await callApi('POST', '/api/v1/payments', {
    amount: '49.99',
    title: texts.title,
    clientReferenceId: 'order-1001',
  })
  await callApi('POST', '/api/v1/payments', { linkId: weather, clientReferenceId: 'order-1002' })
  await callApi('POST', '/api/agent/keys', { name: 'Shop server' })
  return { storeId, weather, maps, refundDue, paidBack, hookId }
}
