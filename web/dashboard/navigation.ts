import type { NavEntry } from '../desk/frame.ts'

/** The views of the dashboard, in the order of how often they are needed. */
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

/** Views that a seller without Developer Mode does not see. */
export const forDevelopers: readonly string[] = ['/dashboard/webhooks', '/dashboard/developer']

/** The entry to which an address belongs: `/dashboard/links/7` is one of the links. */
export const entryOf = (path: string): NavEntry | undefined =>
  entries.findLast(({ href }) => path === href || (href !== '/dashboard' && path.startsWith(`${href}/`)))
