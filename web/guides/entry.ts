import { CopyButton } from '../components/copyButton.ts'
import { islandsOf, startIslands } from '../island/startIslands.ts'
import { showRoutes } from './showRoutes.ts'

void startIslands(islandsOf(CopyButton))
if (document.querySelector('#swagger-ui')) showRoutes()
