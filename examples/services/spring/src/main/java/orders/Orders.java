package orders;

import jakarta.servlet.DispatcherType;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.security.oauth2.jwt.JwtDecoder;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusJwtDecoder;
import org.springframework.security.oauth2.jwt.SupplierJwtDecoder;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Orders {
    public static void main(String[] arguments) {
        SpringApplication.run(Orders.class, arguments);
    }

    @GetMapping("/orders")
    Map<String, Object> orders(@AuthenticationPrincipal Jwt token) {
        return token.getClaims();
    }

    @Bean
    SecurityFilterChain security(HttpSecurity http) throws Exception {
        return http.authorizeHttpRequests(requests -> requests
                        // Without it, keys that cannot be read are a 401 in place of a 500.
                        .dispatcherTypeMatchers(DispatcherType.ERROR).permitAll()
                        .requestMatchers("/orders").hasAuthority("SCOPE_urn:shop:orders:order:read")
                        .anyRequest().denyAll())
                .oauth2ResourceServer(server -> server.jwt(Customizer.withDefaults()))
                .build();
    }

    @Bean
    JwtDecoder decoder(
            @Value("${gateway.issuer}") String issuer,
            @Value("${gateway.audience}") String audience,
            @Value("${gateway.client-id}") String clientId) {
        // At the first request, so that the service starts without the gateway.
        return new SupplierJwtDecoder(() -> {
            NimbusJwtDecoder decoder = NimbusJwtDecoder.withIssuerLocation(issuer)
                    // Without it, those of the keys that are published at the start.
                    .jwsAlgorithm(SignatureAlgorithm.ES256)
                    .jwsAlgorithm(SignatureAlgorithm.RS256)
                    // The validator checks the type, which is not the default JWT.
                    .validateType(false)
                    .build();
            decoder.setJwtValidator(JwtValidators.createAtJwtValidator()
                    .issuer(issuer)
                    .audience(audience)
                    .clientId(clientId)
                    .build());
            return decoder;
        });
    }
}
