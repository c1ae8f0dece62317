import { drawAttention, showNotice } from './attention.js'
import { byId, fill } from './html.js'
import { call, hooks, Refusal, session, vaultNow } from './session.js'
import { approvals } from './store.js'
import { listen } from './stream.js'
import { showActivity } from './views/activity.js'
import { showAgents } from './views/agents.js'
import { showApprovals } from './views/approvals.js'
import { showPairing } from './views/pairing.js'
import { showPolicies } from './views/policies.js'
import { showSignIn } from './views/signIn.js'
import { showUnlock } from './views/unlock.js'
import { showWarnings } from './warnings.js'
import { leftUntil } from './words.js'

/** @import { Warning } from './warnings.js' */
/** @typedef {{ vault_id: string, locked: boolean, lock_reason: string | null, locks_at: string | null, idle_locks_at: string | null, retry_after_ms: number, log_damage?: string | null, warnings?: readonly Warning[] }} Status */

/** Each draws itself into the page and returns how to stop. @type {Readonly<Record<string, (main: HTMLElement) => () => void>>} */
const views = {
  approvals: showApprovals,
  activity: showActivity,
  agents: showAgents,
  policies: showPolicies,
  pairing: showPairing,
}
const refreshStatusMs = 30_000

const main = byId('main')
let leave = () => {}
let hangUp = () => {}
/** @typedef {'none' | 'sign-in' | 'locked' | 'open'} Screen */
/** @type {Screen} */
let screen = 'none'

hooks.signedOut = () => signIn('You are signed out. Get a new link to go on.')
hooks.locked = () => void enter()

/** @param {string} [problem] */
function signIn(problem) {
  session.drop()
  hangUp()
  approvals.clear()
  showWarnings({})
  change('sign-in', () => showSignIn(main, { problem, onsignedin: begin }))
}

/** With a session: hears of everything from now on, and shows what there is. */
function begin() {
  hangUp()
  hangUp = listen({
    onopen() {
      byId('offline').hidden = true
      void enter()
    },
    onevent(type, data) {
      if (type === 'approval') approvals.apply(data)
      else if (type === 'notice') showNotice(data.text)
      else void enter()
    },
    onlost: () => (byId('offline').hidden = false),
  })
}

/** Shows the vault as it is: locked, or open with the view of the address. */
async function enter() {
  const status = await refreshStatus()
  if (status === undefined) return
  if (status.locked) {
    approvals.clear()
    return change('locked', () => showUnlock(main, { status, onunlocked: enter }))
  }
  try {
    await approvals.load()
  } catch (error) {
    // Signed out, locked or away: each of them shows itself.
    if (error instanceof Refusal) return
    throw error
  }
  change('open', showView)
}

/** Draws another screen, unless it is there already: what is being typed or read stays. @param {Screen} next @param {() => void} draw */
function change(next, draw) {
  if (screen === next) return
  screen = next
  byId('nav').hidden = next !== 'open'
  byId('lock').hidden = next !== 'open'
  byId('sign-out').hidden = next === 'sign-in'
  byId('state').hidden = next === 'sign-in'
  document.body.dataset['screen'] = next
  leave()
  leave = () => {}
  draw()
}

function showView() {
  leave()
  const name = viewOf(location.hash)
  for (const link of byId('nav').querySelectorAll('a'))
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  leave = views[name]?.(main) ?? (() => {})
}

/** @param {string} hash */
const viewOf = (hash) => (Object.hasOwn(views, hash.slice(1)) ? hash.slice(1) : 'approvals')

/** @returns {Promise<Status | undefined>} undefined when it could not be had */
async function refreshStatus() {
  /** @type {Status} */
  let status
  try {
    status = await call('GET', '/status')
  } catch {
    return undefined
  }
  const { locked, idle_locks_at } = status
  showWarnings(status)
  const state = byId('state')
  state.dataset['tone'] = locked ? 'wait' : 'good'
  const minutes = Number.parseInt(leftUntil(idle_locks_at ?? '', vaultNow()), 10) || 0
  fill(state, locked ? 'Locked' : `Open, locks in ${minutes < 1 ? 'a minute' : `${minutes} min`}`)
  return status
}

byId('lock').addEventListener('click', () => void call('POST', '/lock', {}).catch(() => enter()))
byId('sign-out').addEventListener('click', async () => {
  await call('DELETE', '/owner/sessions').catch(() => {})
  signIn()
})
window.addEventListener('hashchange', () => {
  if (takeCode()) return
  if (screen === 'open' && Object.hasOwn(views, location.hash.slice(1))) {
    showView()
    main.focus()
  }
})
setInterval(() => {
  if (session.token !== null && !document.hidden) void refreshStatus()
}, refreshStatusMs)

/** A link's code leaves the address at once, and becomes a session. @returns whether there was one */
function takeCode() {
  const code = /^#code=([A-Za-z0-9_-]{1,128})$/.exec(location.hash)?.[1]
  if (code === undefined) return false
  history.replaceState(null, '', location.pathname)
  session.drop()
  void call('POST', '/owner/sign-in', { code }).then(
    ({ token }) => {
      session.keep(token)
      begin()
    },
    (error) => signIn(error.message),
  )
  return true
}

drawAttention()
if (!takeCode()) {
  if (session.token === null) signIn()
  else begin()
}

if ('serviceWorker' in navigator) {
  const types = /** @type {any} */ (window).trustedTypes
  const worker = 'sw.js'
  const url =
    types?.createPolicy('tollgate-worker', { createScriptURL: () => worker }).createScriptURL('') ?? worker
  void navigator.serviceWorker.register(url).catch(() => {})
}
