import { Empty } from '../components/empty.ts'
import { Skeleton } from '../components/skeleton.ts'
import { Frame } from '../desk/frame.ts'
import { html } from '../html.ts'
import { Slot } from '../island/island.ts'
import { entryOf } from './navigation.ts'

/** What the dashboard's script is told with the page; who is signed in it asks by itself. */
export interface DashboardData {
  readonly serviceName: string
  readonly publicUrl: string
}

/** The dashboard before its script is there: the frame, and where a view will be. The same for everybody. */
export const DashboardPage = ({ data, path }: { readonly data: DashboardData; readonly path: string }) =>
  html`<${Slot} name="dashboard" props=${data}>
    <${Frame} serviceName=${data.serviceName} part="Dashboard" home="/dashboard" entries=${[]} current=${entryOf(path)?.href}>
      <noscript><${Empty} title="The dashboard needs JavaScript">
        <p>Everything it does can be done with the API and a key as well; the reference says how.</p>
      <//></noscript>
      <${Skeleton} count=${3} isTall=${true} />
    <//>
  <//>`
