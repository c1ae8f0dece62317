import { Empty } from '../components/empty.ts'
import { Skeleton } from '../components/skeleton.ts'
import { Frame } from '../desk/frame.ts'
import { html } from '../html.ts'
import { Slot } from '../island/island.ts'

export interface OperatorData {
  readonly serviceName: string
}

/** The operator's page before its script is there. */
export const OperatorPage = ({ data }: { readonly data: OperatorData }) =>
  html`<${Slot} name="operator" props=${data}>
    <${Frame} serviceName=${data.serviceName} part="Operator" home="/operator" entries=${[]}>
      <noscript><${Empty} title="This page needs JavaScript"><p>The commands tollgate doctor and tollgate check say the same.</p><//></noscript>
      <${Skeleton} count=${3} isTall=${true} />
    <//>
  <//>`
