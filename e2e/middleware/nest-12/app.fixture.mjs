/** A small application on NestJS 12: a controller, a resolver and a gateway, all limited. */
import 'reflect-metadata'
import { ApolloDriver } from '@nestjs/apollo'
import { Catch, Controller, Get, Injectable, Module, UseFilters, UseGuards } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql'
import { WsAdapter } from '@nestjs/platform-ws'
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets'
import { Limit, SkipLimit, SluiceGuard, SluiceModule } from '@sluice/limiter/nest'

/** As a compiler applies decorators. */
function decorate(type, decorators, methods = {}) {
  for (const [name, ofMethod] of Object.entries(methods)) {
    const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name)
    for (const apply of ofMethod) apply(type.prototype, name, descriptor)
  }
  for (const apply of decorators) apply(type)
}

class Orders {
  list() {
    return ['an order']
  }
  health() {
    return 'ok'
  }
}
decorate(Orders, [Controller()], {
  list: [Get('orders'), Limit({ cost: 2 })],
  health: [Get('health'), SkipLimit()],
})

class Greetings {
  hello() {
    return 'hello'
  }
}
decorate(Greetings, [Resolver()], { hello: [Query(() => String)] })

class SendProblem {
  catch(exception, host) {
    host.switchToWs().getClient().send(JSON.stringify(exception.getError()))
  }
}
decorate(SendProblem, [Injectable(), Catch(WsException)])

class Chat {
  say(_client, data) {
    return { event: 'said', data }
  }
}
decorate(Chat, [WebSocketGateway(), UseGuards(SluiceGuard), UseFilters(SendProblem)], {
  say: [SubscribeMessage('say')],
})

const RULES = `
- { id: http, match: { path: /orders }, by: [ip], limits: [2/day] }
- { id: graphql, match: { path: /graphql, where: { route: Query.hello } }, by: [ip], limits: [1/day] }
- { id: messages, match: { method: MESSAGE }, by: [ip], limits: [1/day] }
`

class App {}
decorate(App, [
  Module({
    imports: [
      SluiceModule.forRootAsync({ useFactory: () => ({ rules: RULES, warnings: false }) }),
      GraphQLModule.forRoot({ driver: ApolloDriver, autoSchemaFile: true, graphiql: false }),
    ],
    controllers: [Orders],
    providers: [Greetings, Chat, { provide: APP_GUARD, useClass: SluiceGuard }],
  }),
])

const app = await NestFactory.create(App, { logger: ['error'] })
app.useWebSocketAdapter(new WsAdapter(app))
await app.listen(0, '127.0.0.1')
console.log(`listening ${app.getHttpServer().address().port}`)
