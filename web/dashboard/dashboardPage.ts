import { Empty, Skeleton } from '../components/card.ts'
import { html } from '../html.ts'
import { Slot } from '../island/island.ts'
import { Frame, type NavEntry } from '../shell/frame.ts'

/** The views of the dashboard, most used first. */
export const entries: readonly NavEntry[] = [
  { href: '/dashboard', title: 'Overview' },
  { href: '/dashboard/links', title: 'Links' },
  { href: '/dashboard/purchases', title: 'Purchases' },
  { href: '/dashboard/sessions', title: 'Payment sessions' },
  { href: '/dashboard/reviews', title: 'Reviews' },
  { href: '/dashboard/webhooks', title: 'Webhooks' },
  { href: '/dashboard/fees', title: 'Fees' },
  { href: '/dashboard/profile', title: 'Profile' },
  { href: '/dashboard/developer', title: 'Developer' },
]

/** Views that are hidden without Developer Mode. */
export const forDevelopers: readonly string[] = ['/dashboard/webhooks', '/dashboard/developer']

/** The navigation entry of an address: `/dashboard/links/7` belongs to Links. */
export const entryOf = (path: string): NavEntry | undefined =>
  entries.findLast(({ href }) => path === href || (href !== '/dashboard' && path.startsWith(`${href}/`)))

/** Data in the page for the dashboard's script. The script itself loads the signed-in store. */
export interface DashboardData {
  readonly serviceName: string
  readonly publicUrl: string
}

/**
 * The dashboard before its script has loaded, which is the frame with a placeholder for the view. It is the same for every
 * visitor.
 */
export const DashboardPage = ({ data, path }: { readonly data: DashboardData; readonly path: string }) =>
  html`<${Slot} name="dashboard" props=${data}>
    <${Frame} serviceName=${data.serviceName} part="Dashboard" home="/dashboard" entries=${[]} current=${entryOf(path)?.href}>
      <noscript><${Empty} title="The dashboard needs JavaScript">
        <p>With an API key, a program can do everything that this page can. See the API reference.</p>
      <//></noscript>
      <${Skeleton} count=${3} isTall=${true} />
    <//>
  <//>`
