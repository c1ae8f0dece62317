import type { CheckoutMessage, Completed, WidgetOptions } from './options.ts'

/** How often it is looked whether the popup is still there, in ms. */
const LOOK_MS = 500
/** How often the session's status is asked for, once its popup can't be seen, in ms: 20 of the 60 that a session has a minute. */
const POLL_MS = 3_000
/** Questions in a row that get no answer before the status counts as unknown: another origin may not read it. */
const MAX_SILENT = 3

/** One opened checkout. */
interface Checkout {
  end(): void
}

let current: Checkout | undefined

/** The widget's global object: a checkout at a time. */
const widget = {
  /**
   * Opens the checkout; call it inside the click. Resolves when the popup is on its way there.
   * @throws {TypeError} for a `checkoutUrl` that is none; what a promise of it rejects with
   */
  async open(options: WidgetOptions): Promise<void> {
    current?.end()
    const popup = options.mode === 'redirect' ? null : openPopup()
    if (popup === null) {
      location.assign(readUrl(await options.checkoutUrl))
      return
    }
    const checkout = follow(popup, options)
    current = checkout
    try {
      const url = readUrl(await options.checkoutUrl)
      if (current === checkout && !popup.closed) checkout.goTo(url)
    } catch (error) {
      checkout.end()
      throw error
    }
  },

  /** Closes the popup. What is under way on the chain goes on. */
  close(): void {
    current?.end()
  },
}

/** An empty window inside the click; null where the browser blocks it. The features make it a window; phones open a tab. */
function openPopup(): Window | null {
  const [width, height] = [480, 780]
  const left = Math.max(0, screenX + (outerWidth - width) / 2)
  const top = Math.max(0, screenY + (outerHeight - height) / 2)
  return window.open('', '_blank', `popup,width=${width},height=${height},left=${left},top=${top}`)
}

function readUrl(text: string): URL {
  const url = new URL(text, location.href)
  if (/^https?:$/.test(url.protocol) && /\/pay\/checkout\/[^/]+$/.test(url.pathname)) return url
  throw new TypeError('Expected the checkoutUrl of a payment session.')
}

/** Follows one popup from the click to its end, and tells the shop what became of it. */
function follow(popup: Window, options: WidgetOptions): Checkout & { goTo(url: URL): void } {
  let url: URL | undefined
  /** The checkout has been heard: from then on a closed window is one that was closed, and not one cut off. */
  let isHeard = false
  let isSettled = false
  let isOver = false
  let silent = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  const complete = (completed: Completed) => {
    if (isSettled) return
    isSettled = true
    call(options.onComplete, completed)
  }
  const cancel = () => {
    if (isSettled) return
    isSettled = true
    call(options.onCancel)
  }
  const end = () => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    removeEventListener('message', hear)
    if (current?.end === end) current = undefined
    popup.close()
    call(options.onClose)
  }
  const hear = (event: MessageEvent<CheckoutMessage | null>) => {
    if (url === undefined || event.source !== popup || event.origin !== url.origin) return
    const message = event.data
    if (message === null || typeof message !== 'object' || message.sessionId !== sessionIdOf(url)) return
    isHeard = true
    if (message.type === 'tollgate:complete') complete(onlyKnown(message.completed))
    if (message.type === 'tollgate:cancel') cancel()
  }

  /**
   * A closed window may be one that was only cut off from us, by a Cross-Origin-Opener-Policy on either side: then the
   * session's status says how it goes on, until it has ended.
   */
  const look = async () => {
    if (!popup.closed) return again(LOOK_MS)
    if (url === undefined || isSettled) return end()
    const status = await ask(url)
    if (isOver) return
    silent = status === undefined ? silent + 1 : 0
    if (status?.status === 'confirmed') complete(status.completed)
    if (status?.status === 'canceled') cancel()
    const mayGoOn = status?.status === 'open' && (!isHeard || status.processing === true)
    if (mayGoOn || (status === undefined && silent < MAX_SILENT)) return again(POLL_MS)
    end()
  }
  const again = (afterMs: number) => {
    timer = setTimeout(look, afterMs)
  }

  addEventListener('message', hear)
  again(LOOK_MS)
  return {
    end,
    goTo(to) {
      url = to
      popup.location.replace(to.href)
    },
  }
}

interface Status {
  readonly status: string
  readonly processing: boolean
  readonly completed: Completed
}

/** The session's status; undefined when it can't be read. */
async function ask(checkout: URL): Promise<Status | undefined> {
  try {
    const base = checkout.href.split('/pay/checkout/')[0]
    const cs = encodeURIComponent(checkout.searchParams.get('cs') ?? '')
    const response = await fetch(`${base}/api/v1/payments/${sessionIdOf(checkout)}?cs=${cs}`)
    const { data } = await response.json()
    const { id, status, processing } = data
    return { status, processing, completed: onlyKnown({ ...data, sessionId: id }) }
  } catch {
    return undefined
  }
}

const sessionIdOf = (checkout: URL): string => checkout.pathname.split('/').pop()!

const onlyKnown = (given: Completed): Completed => ({
  sessionId: given.sessionId,
  purchaseId: given.purchaseId,
  txHash: given.txHash,
  chain: given.chain,
  amount: given.amount,
  clientReferenceId: given.clientReferenceId ?? null,
})

/** A shop's function that throws stops nothing here; its error is told as the browser tells those. */
function call<T extends unknown[]>(listener: ((...given: T) => void) | undefined, ...given: T): void {
  try {
    listener?.(...given)
  } catch (error) {
    setTimeout(() => {
      throw error
    })
  }
}

const name = (document.currentScript as HTMLScriptElement | null)?.dataset['global'] || 'Tollgate'
Object.assign(window, { [name]: widget })
